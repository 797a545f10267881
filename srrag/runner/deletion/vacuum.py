"""Remove what no pointer of a root names: old configurations, old versions, leftovers of kills."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import nullcontext
from pathlib import Path

from srrag.core.stage import Plan
from srrag.runner.deletion.find_ids import Wanted, holding, shown
from srrag.runner.pipeline_run import FOLDER, SOURCE
from srrag.runner.verify import build_files, pointers, unexplained
from srrag.storage import mirror, writer_lock
from srrag.storage.mirror import discard, finish
from srrag.storage.store import Store


def is_of_questions(stage: str) -> bool:
    """Whether a stage belongs to a pipeline; pointers do not name those."""
    return stage == SOURCE or stage.startswith(f"{FOLDER}-")


def prune(store: Store) -> int:
    """Remove the parts and builds that no pointer names; returns their number."""
    drop_unfinished(store)
    stages = store.root / "stages"
    named = _named(store)
    count = drop_builds(store)
    for folder in stages.glob("*/*"):
        stage, fingerprint = folder.parent.name, folder.name
        if is_of_questions(stage) or build_files(folder):
            continue
        kept = named.get((stage, fingerprint))
        gone = [path for path in folder.glob("part-*.parquet") if path.stem[5:] not in (kept or ())]
        count += len(gone)
        if kept is None:
            discard(folder)
            continue
        for path in gone:
            drop_part(path)
    drop_unexplained(store)
    return count


def drop_builds(store: Store) -> int:
    """Remove the builds that no pointer names; returns their number."""
    named = _named(store)
    gone = [
        path.parent
        for path in (store.root / "stages").glob("*/*/manifest.json")
        if (path.parent.parent.name, path.parent.name) not in named and build_files(path.parent)
    ]
    for folder in gone:
        discard(folder)
    return len(gone)


def drop_unexplained(store: Store) -> list[Path]:
    """Remove unexplained files of stages and pointers, and empty folders; returns their names.

    The caller must hold the lock of the root. Files in other folders stay, because SR-RAG did not
    write them.
    """
    stages = store.root / "stages"
    gone = [
        path
        for path in unexplained(store)
        if path.relative_to(store.root).parts[0] in ("stages", "builds")
    ]
    for path in gone:
        path.unlink(missing_ok=True)
    for folder in (path for path in stages.glob("*/*") if not is_of_questions(path.parent.name)):
        if folder.is_dir() and not any(path.is_file() for path in folder.rglob("*")):
            discard(folder)
    return gone


def drop_part(path: Path) -> None:
    """Remove a part: first its data file, which makes it valid, then its receipt and note."""
    path.unlink(missing_ok=True)
    path.with_suffix(".json").unlink(missing_ok=True)
    path.with_name(f".attempt-{path.stem[5:]}.json").unlink(missing_ok=True)


def drop_outputs(jobs: Path, wanted: Wanted) -> list[str]:
    """Remove the outputs of jobs, except figures without a wanted id; returns their names.

    Some jobs, such as benchmarks, keep their own store. Raises ValueError while one is being
    written.
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
            discard(path)
    told = list(holding([jobs], wanted))
    for path in told:
        path.unlink()
    return [path.relative_to(jobs).as_posix() for path in [*gone, *told]]


def drop_unfinished(store: Store, *, questions: bool = True) -> None:
    """Remove what a killed run left half written or half removed.

    The caller must hold the lock of the root. Without `questions` the answer stages are skipped,
    because answers are written without the lock.
    """
    finish(store.root)
    for path in _unfinished(store.root):
        place = path.relative_to(store.root).parts
        if not questions and place[0] == "stages" and is_of_questions(place[1]):
            continue
        if path.is_dir():
            discard(path)
        else:
            path.unlink(missing_ok=True)


def drop_notes(store: Store, plan: Plan, parts: Collection[str]) -> None:
    """Remove a plan's notes of attempts at parts that are finished or no longer in the plan."""
    for stage in plan.steps:
        fingerprint = plan.fingerprint(stage.name)
        standing = store.parts(stage.name, fingerprint)
        for path in store.stage_dir(stage.name, fingerprint).glob(".attempt-*"):
            part = path.name.removeprefix(".attempt-").partition(".")[0]
            if path.suffix != ".json" or part in standing or part not in parts:
                path.unlink(missing_ok=True)


def _unfinished(root: Path) -> Iterator[Path]:
    stages = ("stages/*/.*", "stages/*/*/.part-*", "stages/*/*/.manifest*", "stages/*/*/.*.tmp")
    for pattern in (*stages, "builds/.*", ".organize.*", "organize/.*"):
        yield from root.glob(pattern)
    for name in ("forgotten", "forgotten.copy", "forgetting", "srrag"):
        yield from root.glob(f".{name}.json.*")


def _named(store: Store) -> dict[tuple[str, str], set[str]]:
    """Return the parts that pointers name, by stage and fingerprint; empty for builds."""
    named: dict[tuple[str, str], set[str]] = {}
    for pointer in pointers(store):
        for name, entry in pointer["stages"].items():
            named.setdefault((name, entry["fingerprint"]), set()).update(entry.get("parts", []))
    return named
