"""Remove what no pointer of a root names: older configurations, versions and what kills left."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

from srrag.runner.deletion.find_ids import Wanted, holding, shown
from srrag.runner.shared_prefix_plan import FOLDER, SOURCE
from srrag.storage import mirror, writer_lock
from srrag.storage.atomic_write import read_json
from srrag.storage.store import Store


def is_of_questions(stage: str) -> bool:
    """Whether a stage is of a pipeline: no pointer names those."""
    return stage == SOURCE or stage.startswith(f"{FOLDER}-")


def prune(store: Store) -> int:
    """Remove the parts and builds that no pointer names; returns how many."""
    stages = store.root / "stages"
    named = _named(store)
    count = drop_builds(store)
    for folder in stages.glob("*/*"):
        stage, fingerprint = folder.parent.name, folder.name
        if is_of_questions(stage) or ((folder / "manifest.json").exists() and _is_build(folder)):
            continue
        kept = named.get((stage, fingerprint))
        gone = [path for path in folder.glob("part-*.parquet") if path.stem[5:] not in (kept or ())]
        for path in gone:
            drop_part(path)
        count += len(gone)
        if kept is None:
            shutil.rmtree(folder)
    return count


def drop_builds(store: Store) -> int:
    """Remove the builds that no pointer names; returns how many."""
    named = _named(store)
    gone = [
        path.parent
        for path in (store.root / "stages").glob("*/*/manifest.json")
        if _is_build(path.parent) and (path.parent.parent.name, path.parent.name) not in named
    ]
    for folder in gone:
        shutil.rmtree(folder)
    return len(gone)


def drop_part(path: Path) -> None:
    """Remove a part: the file that counts first, then its receipt and note."""
    path.unlink(missing_ok=True)
    path.with_suffix(".json").unlink(missing_ok=True)
    path.with_name(f".attempt-{path.stem[5:]}.json").unlink(missing_ok=True)


def drop_outputs(jobs: Path, wanted: Wanted) -> list[str]:
    """Remove what jobs wrote but figures, and summaries with an id that is wanted; their names.

    Some keep a store of their own, as a benchmark does: raises ValueError while that is written.
    """
    gone = sorted(path for path in jobs.glob("*") if any(shown(path)))
    for path in gone:
        if not path.is_dir():
            path.unlink()
            continue
        held = any(
            mirror.exists(path / name) for name in (writer_lock.FILE, f"{writer_lock.FILE}.json")
        )
        with Store(path).lock() if held else nullcontext():
            shutil.rmtree(path)
    told = list(holding([jobs], wanted))
    for path in told:
        path.unlink()
    return [path.relative_to(jobs).as_posix() for path in [*gone, *told]]


def drop_unfinished(store: Store) -> None:
    """Remove what a killed run left half written; only for who holds the root."""
    for path in _unfinished(store.root):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _unfinished(root: Path) -> Iterator[Path]:
    for pattern in ("stages/*/.*", "stages/*/*/.part-*", "stages/*/*/.manifest*", "builds/.*"):
        yield from root.glob(pattern)
    for name in ("forgotten", "forgetting", "srrag"):
        yield from root.glob(f".{name}.json.*")


def _named(store: Store) -> dict[tuple[str, str], set[str]]:
    """The parts that pointers name, by stage and fingerprint; none for builds."""
    named: dict[tuple[str, str], set[str]] = {}
    for path in (store.root / "builds").glob("*.json"):
        for name, entry in store.read_pointer(path.stem)["stages"].items():
            named.setdefault((name, entry["fingerprint"]), set()).update(entry.get("parts", []))
    return named


def _is_build(folder: Path) -> bool:
    return "files" in read_json(folder / "manifest.json")
