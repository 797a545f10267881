"""Verify a build: rows in = rows out + rejected, files match their hashes, ids their content.

A receipt explains its part, a part its receipt, and a manifest the files of its build; the name and
place of any other file explain it. An unexplained file comes from a killed run or from outside and
may hold anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from srrag.core.spec import file_sha256, segment_id
from srrag.core.standing import STANDINGS
from srrag.corpus.record import RawRecord
from srrag.runner.deletion.tombstones import Tombstones
from srrag.runner.part import live
from srrag.runner.pipeline_run import FOLDER, SOURCE
from srrag.storage.atomic_write import read_json, read_object
from srrag.storage.manifest import DamagedError, changed_files, check_part, manifest_files
from srrag.storage.store import Receipt, Store, count_reasons

_KNOWN = re.compile(
    r"(srrag|forgotten(\.copy)?|forgetting)\.json|\.lock(\.json)?"
    r"|completions/((part|faults)-[^/]+\.parquet|part-[^/]+\.json|journal-[^/]+\.jsonl"
    r"|\.lock)"
    r"|organize/.+|statuses/[0-9a-f]{32}\.json"
)
"""Files outside the folders of stages, builds and jobs, by their paths below the root."""

_LOCK = re.compile(r"\.tantivy-[a-z]+\.lock")
"""The empty lock file that Tantivy leaves in an index that it has opened."""

_OTHERS = ("stages", "builds", "jobs")


def unexplained(store: Store) -> Iterator[Path]:
    """Yield the files of a root that no pointer, manifest or receipt explains.

    Missing or changed files in a folder that a pointer names count as damage instead: `verify`
    reports it and a build repairs it.
    """
    named = {
        store.stage_dir(name, entry["fingerprint"])
        for build in pointers(store)
        for name, entry in build["stages"].items()
    }
    stages = store.root / "stages"
    for folder in sorted(path for path in stages.glob("*/*") if path.is_dir()):
        yield from (_strays if folder in named else _orphans)(folder)
    for path in _files(store.root / "builds"):
        if path.suffix != ".json" or path.name.startswith("."):
            yield path
    yield from sorted(path for path in (*stages.glob("*"), *stages.glob("*/*")) if path.is_file())
    for beside in sorted(store.root.iterdir()):
        if beside.name not in _OTHERS:
            files = [beside] if beside.is_file() else _files(beside)
            for each in files:
                if not _KNOWN.fullmatch(each.relative_to(store.root).as_posix()):
                    yield each


def asked_parts(root: Path) -> Iterator[Path]:
    """Yield the parts that no pointer names: questions, answers, and the stores of jobs."""
    for name in (SOURCE, f"{FOLDER}*"):
        yield from sorted((root / "stages").glob(f"{name}/*/part-*.parquet"))
    yield from sorted((root / "jobs").glob("*/stages/*/*/part-*.parquet"))


def damaged_parts(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield the damaged parts among `asked_parts`, each with the message of the error."""
    for path in asked_parts(root):
        try:
            check_part(path)
        except DamagedError as error:
            yield path, str(error)


def pointers(store: Store) -> Iterator[dict[str, Any]]:
    """The pointers of a root, one by one; raises ValueError that names a damaged one."""
    return map(store.read_pointer, store.builds())


def build_files(folder: Path) -> set[str]:
    """Return the files in the manifest of a build; empty if the folder holds no build."""
    files = read_object(folder / "manifest.json").get("files")
    return set(files) if isinstance(files, dict) else set()


def _strays(folder: Path) -> Iterator[Path]:
    """Yield the unexplained files of a folder that a pointer names."""
    built = build_files(folder)
    for path in _files(folder):
        name = path.relative_to(folder).as_posix()
        if (built and name not in {*built, "manifest.json"} and not _LOCK.fullmatch(path.name)) or (
            not built and _is_half(path)
        ):
            yield path


def _orphans(folder: Path) -> Iterator[Path]:
    """Yield the unexplained files of a folder that no pointer names."""
    if folder.name.startswith("."):
        yield from _files(folder)
        return
    built = build_files(folder)
    for path in _files(folder):
        name = path.relative_to(folder).as_posix()
        is_part = re.fullmatch(r"part-[^/]+\.(parquet|json)|\.attempt-[^/]+\.json", name)
        whole = is_part and not built and not _is_half(path)
        is_ours = name in built or _LOCK.fullmatch(path.name)
        if not (whole or is_ours or (name == "manifest.json" and read_object(path))):
            yield path


def _is_half(path: Path) -> bool:
    """Whether a file is a part without receipt, a receipt without part, or unfinished."""
    if path.name.startswith(".attempt-") and path.suffix == ".json":
        return False
    if path.name.startswith("."):
        return True
    if path.name.startswith("part-") and path.suffix in (".parquet", ".json"):
        other = ".json" if path.suffix == ".parquet" else ".parquet"
        return not path.with_suffix(other).exists()
    return False


def _files(folder: Path) -> Iterator[Path]:
    yield from sorted(path for path in folder.rglob("*") if path.is_file())


_SEALED = re.compile(
    r"[^.].*/((betr|features|answerable|thresholds)\.json|model/manifest\.json|rows\.json)"
)
"""Outputs below `jobs` with a hash: fitted files, and what names files of models and results."""


def damaged_outputs(root: Path) -> Iterator[str]:
    """Yield the damage of fitted files, trained models and results, one message a file.

    Only the command that wrote an output can make it again.
    """
    jobs = root / "jobs"
    for path in sorted(jobs.rglob("*.json")):
        if _SEALED.fullmatch(path.relative_to(jobs).as_posix()):
            try:
                stated = read_json(path)
            except (OSError, ValueError) as error:
                yield str(error)
            else:
                files = stated.get("files") if isinstance(stated, dict) else None
                yield from changed_files(path.parent, files if isinstance(files, dict) else {})


def _damaged_statuses(root: Path) -> Iterator[str]:
    """Yield the damage of the lists of statuses that builds were given, one message a list."""
    for path in sorted((root / "statuses").glob("*.json")):
        try:
            read_json(path)
        except (OSError, ValueError) as error:
            yield str(error)


_COUNTS = ("rows_in", "skipped", "failed", "rows_out", "rejected")
_TRACES = {"chunks": ("doc_id", "doc_id"), "windows": ("parent_id", "unit_id")}
"""Stages that expand rows: the output column in which each live input's id has to appear."""


def verify(store: Store, build: str) -> dict[str, Any]:
    """Check every part and file of a build; `problems` lists the violations, one a line."""
    store.bring_all()
    stages = store.read_pointer(build)["stages"]
    problems: list[str] = []
    rows: dict[str, dict[str, int]] = {}
    checked = 0
    raw: list[str] = next((entry["parts"] for entry in stages.values() if "parts" in entry), [])
    if not raw:
        problems.append(f"{store.pointer_path(build)}: names no part")
    for name, entry in stages.items():
        problems += [
            f"{name}: its input {before!r} is not in the pointer"
            for before in entry.get("inputs", [])
            if before not in stages
        ]
        manifest = store.stage_dir(name, entry["fingerprint"]) / "manifest.json"
        stated = read_object(manifest).get("fingerprint")
        if entry.get("inputs") and stated != entry["fingerprint"]:
            problems.append(f"{name}: {manifest} is missing or of another stage")
        if "parts" in entry and entry["parts"] != raw:
            problems.append(f"{name}: the pointer names other parts than those of the corpus")
        if "parts" not in entry:
            checked += _verify_files(store, name, entry, problems)
            problems += _of_others(store, stages, name)
            continue
        totals = dict.fromkeys(_COUNTS, 0)
        for part in entry["parts"]:
            checked += 1
            receipt = _intact(store, stages, name, part, problems)
            if receipt is None:
                continue
            _verify_part(store, stages, receipt, name, problems)
            for key in totals:
                totals[key] += getattr(receipt, key)
        rows[name] = totals
    if not problems:
        _verify_documents(rows, problems)
    problems += _verify_standing(store, stages)
    problems += Tombstones.problems(store.root)
    problems += [problem for _, problem in damaged_parts(store.root)]
    problems += damaged_outputs(store.root)
    problems += _damaged_statuses(store.root)
    if (store.root / "forgetting.json").exists():
        problems.append("an interrupted forgetting is not finished: run `srrag forget root=…`")
    return {"ok": not problems, "checked": checked, "rows": rows, "problems": problems}


def amiss(store: Store, stages: dict[str, Any], name: str, part: str) -> list[str]:
    """Check one part: its file against its receipt, its rows against its input.

    Returns the violations. `stages` are entries of a pointer.
    """
    problems: list[str] = []
    receipt = _intact(store, stages, name, part, problems)
    if receipt is not None:
        try:
            _verify_part(store, stages, receipt, name, problems)
        except (ValueError, OSError, KeyError) as error:
            problems.append(f"{name}: part {part}: {error}")
    return problems


def _verify_standing(store: Store, stages: dict[str, Any]) -> Iterator[str]:
    """Check that each standing is a known one, of a document or notice that the build holds."""
    if "standing" not in stages or "notices" not in stages:
        return
    folder = store.stage_dir("standing", stages["standing"]["fingerprint"])
    try:
        table = pq.read_table(folder / "standing.parquet", columns=["doc_id", "standing"])
        raw = [
            store.read_part("raw", stages["raw"]["fingerprint"], part, ["raw_id"], checked=False)
            for part in stages["raw"]["parts"]
        ]
    except (OSError, ValueError, KeyError):
        return  # the check of these files reports it
    told = set(table["standing"].to_pylist()) - set(STANDINGS)
    yield from (f"standing: {each!r} is no standing" for each in sorted(told))
    held = pa.concat_tables(raw)["raw_id"]
    absent = table.filter(pc.invert(pc.is_in(table["doc_id"], value_set=held.combine_chunks())))
    if absent.num_rows:
        yield f"standing: document {absent['doc_id'][0]} is not in this build"


def _verify_files(store: Store, name: str, entry: dict[str, Any], problems: list[str]) -> int:
    folder = store.stage_dir(name, entry["fingerprint"])
    if not (folder / "manifest.json").exists():
        problems.append(f"{name}: {folder} has no manifest")
        return 0
    try:
        files = manifest_files(folder)
    except ValueError as error:
        problems.append(f"{name}: {error}")
        return 0
    problems += [f"{name}: {problem}" for problem in changed_files(folder, files)]
    return len(files)


def _of_others(store: Store, stages: dict[str, Any], name: str) -> Iterator[str]:
    """Yield the inputs of a build that have changed since: a run stopped before it was rebuilt."""
    folder = store.stage_dir(name, stages[name]["fingerprint"])
    contents = read_object(folder / "manifest.json").get("contents") or {}
    for before, read in contents.items():
        if (entry := stages.get(before)) is None:
            continue
        try:
            now = store.held(before, entry)
        except (ValueError, OSError):
            continue  # the check of that stage reports it
        if now != read:
            yield f"{name}: {folder} was made of other {before} than stand; run the build again"


def _intact(
    store: Store, stages: dict[str, Any], name: str, part: str, problems: list[str]
) -> Receipt | None:
    """Return the receipt of an intact part; else None, with a problem appended."""
    fingerprint = stages[name]["fingerprint"]
    path = store.part_path(name, fingerprint, part)
    if not path.exists() or not store.receipt_path(name, fingerprint, part).exists():
        problems.append(f"{name}: {path} or its receipt is missing")
        return None
    try:
        receipt = store.read_receipt(name, fingerprint, part)
    except ValueError as error:
        problems.append(f"{name}: {error}")
        return None
    if receipt.part != part:
        problems.append(f"{name}: {path}: its receipt is of part {receipt.part!r}")
        return None
    if file_sha256(path) != receipt.sha256:
        problems.append(f"{name}: {path} is not what was written (sha256 differs)")
        return None
    return receipt


def _verify_part(
    store: Store, stages: dict[str, Any], receipt: Receipt, name: str, problems: list[str]
) -> None:
    """Recount a part against its receipt and its input."""
    entry, part = stages[name], receipt.part
    path = store.part_path(name, entry["fingerprint"], part)
    table = store.read_part(name, entry["fingerprint"], part, checked=False)
    if receipt.num_bytes != path.stat().st_size or receipt.failed > receipt.rejected:
        problems.append(f"{name}: {path}: size or failures differ from the receipt")
    if table.num_rows != receipt.rows_out:
        problems.append(f"{name}: {path} has {table.num_rows} rows, not {receipt.rows_out}")
    reasons = count_reasons(table)
    if (reasons, sum(reasons.values())) != (receipt.reasons, receipt.rejected):
        problems.append(f"{name}: {path}: rejects differ from the receipt")
    if not entry.get("inputs"):
        if segment_id(table["raw_id"].to_pylist()) != part:
            problems.append(f"{name}: {path} does not hold the rows that name it")
        if {"source", "body"} <= set(table.column_names) and (row := _untrue(table)) is not None:
            problems.append(f"{name}: {path}: row {row} does not hold the content that names it")
        return
    before = entry["inputs"][0]
    if before not in stages:
        return
    if _intact(store, stages, before, part, []) is None:
        return  # the check of that stage has reported it
    source = store.read_part(before, stages[before]["fingerprint"], part, checked=False)
    alive = live(source)
    if (source.num_rows, source.num_rows - alive.num_rows) != (receipt.rows_in, receipt.skipped):
        problems.append(f"{name}: {path}: its input has {source.num_rows} rows")
    if entry["keeps_rows"] and table.num_rows != alive.num_rows:
        problems.append(f"{name}: {path}: {alive.num_rows} rows in, {table.num_rows} out")
    if name in _TRACES:
        here, there = _TRACES[name]
        lost = pc.sum(pc.invert(pc.is_in(alive[there], table[here]))).as_py() or 0
        if lost:
            problems.append(f"{name}: {path}: {lost} input rows left no trace")


def _untrue(table: pa.Table) -> int | None:
    """Return the first row of RAW whose id does not match its content; None if all match."""
    for number, row in enumerate(table.to_pylist()):
        reason = (row["reject"] or {}).get("reason") or ""
        place = row["source"], row["source_id"], row["format"]
        if RawRecord(*place, row["body"] or b"", reason).raw_id != row["raw_id"]:
            return number
    return None


def _verify_documents(rows: dict[str, dict[str, int]], problems: list[str]) -> None:
    """Check that every raw record is a document or a reject of a stage up to `documents`."""
    chain = [name for name in ("raw", "parsed", "documents") if name in rows]
    if chain != ["raw", "parsed", "documents"]:
        return
    alive = rows["documents"]["rows_out"] - rows["documents"]["rejected"]
    rejected = sum(rows[name]["rejected"] for name in chain)
    if rows["raw"]["rows_in"] != alive + rejected:
        problems.append(
            f"{rows['raw']['rows_in']} records in, but {alive} documents + {rejected} rejected"
        )
