from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from srrag.storage.process_identity import Heartbeat, ProcessIdentity, check_free

ELSEWHERE = replace(ProcessIdentity.this(), machine="another", host="far")


def test_a_heartbeat_renews_until_it_is_stopped() -> None:
    beaten, beats = threading.Event(), []

    def renew() -> bool:
        beats.append(1)
        if len(beats) == 1:
            raise OSError("the store is away for once")
        beaten.set()
        return True

    heartbeat = Heartbeat("test", 0.001, renew)
    assert beaten.wait(10)
    heartbeat.stop()
    count = len(beats)
    assert count >= 2
    assert not threading.Event().wait(0.01) and len(beats) == count


def test_a_lost_lease_is_not_renewed() -> None:
    beats: list[int] = []
    heartbeat = Heartbeat("test", 0.001, lambda: bool(beats.append(1)))  # type: ignore[func-returns-value]
    heartbeat._thread.join(10)
    assert beats == [1]
    heartbeat.stop()


def test_a_live_holder_is_named() -> None:
    with pytest.raises(ValueError, match=r"^root=R is being written by process \d+ on far"):
        check_free("root=R", ELSEWHERE, age_s=5, stale_s=60)
    check_free("root=R", ELSEWHERE, age_s=60, stale_s=60)
    check_free("root=R", replace(ELSEWHERE, released=True), age_s=5, stale_s=60)
