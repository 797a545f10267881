"""Run many fits on Ray Tune, one trial for each candidate; a restart repeats no finished trial."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ray import tune

Trial = Callable[[dict[str, Any]], dict[str, Any]]
"""Maps a JSON configuration to a JSON result; a function of the package."""


def tune_on_ray(
    trial: Trial,
    candidates: Sequence[dict[str, Any]],
    *,
    folder: Path,
    name: str,
    cpus: float = 0.5,
) -> list[dict[str, Any]]:
    """Return the result of each candidate, in order.

    A run whose `name` exists in `folder` does only the missing trials. Raises RuntimeError with the
    reason of the first trial that failed.
    """

    def run(given: dict[str, Any]) -> None:
        # As text, because Tune flattens nested results.
        result = trial(json.loads(given["candidate"]))
        tune.report({"place": given["place"], "result": json.dumps(result)})

    trainable = tune.with_resources(run, {"cpu": cpus})
    storage = str(folder.resolve())
    if tune.Tuner.can_restore(f"{storage}/{name}"):
        tuner = tune.Tuner.restore(
            f"{storage}/{name}", trainable=trainable, resume_unfinished=True, restart_errored=True
        )
    else:
        points = [{"place": n, "candidate": json.dumps(c)} for n, c in enumerate(candidates)]
        tuner = tune.Tuner(
            trainable,
            param_space=tune.grid_search(points),
            run_config=tune.RunConfig(name=name, storage_path=storage, verbose=0),
        )
    found: dict[int, dict[str, Any]] = {}
    outcomes = tuner.fit()
    for outcome in (outcomes[n] for n in range(len(outcomes))):
        if outcome.error is not None:
            reason = str(outcome.error).strip().splitlines()[-1]
            raise RuntimeError(f"a trial of {name} failed: {reason}")
        assert outcome.metrics is not None
        found[outcome.metrics["place"]] = json.loads(outcome.metrics["result"])
    return [found[place] for place in range(len(candidates))]
