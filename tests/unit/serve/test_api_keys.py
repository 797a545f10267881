from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from srrag.serve.settings import ROLES, Rate, owner, read_keys


def sha(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def test_a_file_of_hashes_names_the_owner_of_a_key(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(f"# who may ask\nclinic {sha('one')}\n\nlab.2  {sha('two')}  # since May\n")
    keys = read_keys(path)
    assert owner(keys, "one") == "clinic"
    assert owner(keys, "two") == "lab.2"
    assert owner(keys, "three") is None
    assert owner(keys, "") is None
    assert owner(keys, sha("one")) is None, "the hash is no key"
    assert owner(keys, "\udcff") is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("clinic one", "line 1"),
        (f"{sha('one')}", "line 1"),
        (f"a {sha('one')}\na {sha('two')}", "line 2"),
        ("# nobody\n", "no key"),
        (f"a {sha('one')} owner", "line 1: 'owner' is none of reader, runs, admin"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "keys"
    path.write_text(text)
    with pytest.raises(ValueError, match=says) as caught:
        read_keys(path)
    assert str(path) in str(caught.value)


def test_a_role_holds_those_before_it(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(f"a {sha('a')}\nb {sha('b')} runs\nc {sha('c')} admin\n")
    may = {name: [key.may(role) for role in ROLES] for name, key in read_keys(path).items()}
    assert may == {"a": [True, False, False], "b": [True, True, False], "c": [True, True, True]}


def test_a_bucket_gives_a_burst_and_then_its_rate() -> None:
    rate = Rate(per_minute=60, burst=2)
    assert [rate.wait_s("a", now) for now in (0.0, 0.0, 0.0, 0.5, 1.0)] == [0, 0, 1, 0.5, 0]
    assert rate.wait_s("b", 1.0) == 0, "each caller has its own"
    assert [rate.wait_s("a", 100.0) for _ in range(3)] == [0, 0, 1], "no more than the burst"


def test_replicas_share_a_rate() -> None:
    rates = [Rate(per_minute=60, burst=4, replicas=2) for _ in range(2)]
    given = [sum(not rate.wait_s("a", at / 4) for at in range(401)) for rate in rates]
    assert given == [52, 52], "two at once, and every other second one, of 100 seconds"
    few = Rate(per_minute=60, burst=1, replicas=4)
    assert [few.wait_s("a", now) for now in (0.0, 0.0, 4.0)] == [0, 4, 0]
    few.replicas = 1
    assert [few.wait_s("a", now) for now in (4.5, 5.0)] == [0.5, 0]


def test_without_a_rate_nobody_waits() -> None:
    assert {Rate(per_minute=0, burst=1).wait_s("a", 0.0) for _ in range(5)} == {0}
