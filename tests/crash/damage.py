"""Damage files of every kind in a root, and see who finds it and what mends it.

`python -m tests.crash.damage FOLDER` prints, as JSON, for each kind of file and each damage what
`verify`, `build` and `build repair=true` did. Each case is a fork on a copy of one root.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.crash.harness import forked, made_base
from tests.crash.roots import build, run_organize
from tests.crash.scan import state

DAMAGES = ("bit", "cut", "zero", "gone")


def damage(path: Path, kind: str) -> None:
    """Flip a bit in the middle of a file, cut it there, empty it, or remove it."""
    data = path.read_bytes()
    middle = len(data) // 2
    if kind == "bit":
        data = data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :]
    elif kind == "cut":
        data = data[:middle]
    elif kind == "zero":
        data = b""
    path.unlink()  # a file that is linked elsewhere is left alone there
    if kind != "gone":
        path.write_bytes(data)


OF_BENCHMARK = " of a benchmark"


KINDS = {
    r"srrag\.json": "marker",
    r"forgotten(\.copy)?\.json": "list of what was forgotten",
    r"forgetting\.json": "note of a forgetting",
    r"\.lock(\.json)?": "lock",
    r"builds/[^/.][^/]*\.json": "pointer",
    r"statuses/[0-9a-f]{32}\.json": "list of statuses",
    r"stages/raw/[^/]+/part-[^/]+\.parquet": "raw part",
    r"stages/raw/[^/]+/part-[^/]+\.json": "raw receipt",
    r"stages/(questions|answers[^/]*)/[^/]+/part-[^/]+\.parquet": "part of questions",
    r"stages/(questions|answers[^/]*)/[^/]+/part-[^/]+\.json": "receipt of questions",
    r"stages/[^/.][^/]*/[^/]+/part-[^/]+\.parquet": "part",
    r"stages/[^/.][^/]*/[^/]+/part-[^/]+\.json": "receipt",
    r"stages/[^/]+/[^/]+/\.attempt-[^/]+\.json": "attempt note",
    r"stages/[^/.][^/]*/[^/.][^/]*/manifest\.json": "manifest",
    r"stages/[^/.][^/]*/[^/.][^/]*/.+": "file of a build",
    r"completions/part-[^/]+\.parquet": "completions",
    r"completions/faults-[^/]+\.parquet": "faults",
    r"completions/part-[^/]+\.json": "receipt of completions",
    r"completions/journal-[^/]+\.jsonl": "journal",
    r"completions/\.lock": "lock of completions",
    r"jobs/[^.].*/(betr|features|answerable|thresholds)\.json": "fitted file",
    r"jobs/[^.].*/model/.+": "trained model",
    r"jobs/[^.].*/(rows\.json|(questions|gold)\.parquet|(answers|judgements)/.+)": "results",
    r"organize/.+": "file of organize",
    r"jobs/[^.][^/]*(/.+)?": "output",
}
"""The kind of a file by its path below the root; the first match counts."""


def kind_of(path: Path, root: Path) -> str | None:
    """Return the kind of a file by its name and place; None for a file that SR-RAG never writes.

    A file in the store of a job, such as a benchmark, has the kind that it has in that store.
    """
    from srrag.runner.verify import build_files

    below = path.relative_to(root)
    if below.parts[0] == "jobs":
        for depth in range(2, len(below.parts)):
            inner = root.joinpath(*below.parts[:depth])
            if (inner / "srrag.json").exists():
                return kind_of(path, inner)
    name = below.as_posix()
    kind = next((kind for pattern, kind in KINDS.items() if re.fullmatch(pattern, name)), None)
    if kind == "manifest":
        return "manifest of a build" if build_files(path.parent) else "manifest of a step"
    return kind


def kinds(root: Path) -> dict[str, Path]:
    """A file of each kind that the root holds, the largest, by kind; raises for one of none.

    The files of a benchmark, which is a store below `jobs`, are kinds of their own.
    """
    from srrag.runner.verify import pointers
    from srrag.storage.store import Store

    stages = next(p["stages"] for p in pointers(Store(root)) if p["build"] == "default")
    live = {f"{name}/{entry['fingerprint']}" for name, entry in stages.items()}
    live |= {f"{name}/f" for name in ("questions", "answers-SearchSparse-0123abcd")}
    parts = set(stages["raw"]["parts"])
    found: dict[str, Path] = {}
    for path in sorted(p for p in root.rglob("*") if p.is_file() and p.name != ".lock"):
        kind = kind_of(path, root)
        assert kind is not None, f"{path}: a file of no kind"
        below = path.relative_to(root).parts
        if below[0] == "stages":
            asked = below[1] == "questions" or below[1].startswith("answers")
            named = asked or not below[3].startswith("part-") or path.stem[5:] in parts
            if "/".join(below[1:3]) not in live or not named:
                continue
        if below[0] == "jobs" and below[1] == "benchmark":
            kind += OF_BENCHMARK
        if below[0] == "builds" and not path.name.startswith("default"):
            continue
        if kind not in found or path.stat().st_size > found[kind].stat().st_size:
            found[kind] = path
    return found


def tried(base: Path, folder: Path, path: str, kind: str) -> dict[str, Any]:
    """What finds a damage, and whether what stands after mending equals what was."""
    shutil.copytree(base, folder)
    damage(folder / "root" / path, kind)
    out = folder / "found.json"
    assert forked(lambda: _look(folder, out), folder / "log.txt") == 0, (
        folder / "log.txt"
    ).read_text()[-3000:]
    found = dict(json.loads(out.read_text("utf-8")))
    before = json.loads((base / "state.json").read_text("utf-8"))
    after = found.pop("state")
    names = (before.keys() | after.keys()) - {"answers", "hidden"}
    found["unequal"] = sorted(name for name in names if before.get(name) != after.get(name))
    found["answers lost"] = max(
        0, len(json.loads(before["answers"])) - len(json.loads(after["answers"]))
    )
    return found


def _look(folder: Path, out: Path) -> None:
    from srrag.storage.store import Store

    root, papers = folder / "root", folder / "papers"
    found: dict[str, Any] = {"verify": _problems(root)}
    found["build"] = _said(lambda: build(root, papers))
    found["after build"] = _problems(root) if found["build"] == "" else ["not built"]
    found["repair"] = _said(lambda: build(root, papers, repair=True))
    found["after repair"] = _problems(root)
    found["benchmark"] = _said(Store(root / "jobs" / "benchmark").check)
    found["organize"] = _said(lambda: run_organize(folder))
    found["state"] = _state(root)
    out.write_text(json.dumps(found), "utf-8")


def _state(root: Path) -> dict[str, str]:
    """All that has to be there again, with its content: no outputs, notes, indexes or caches."""
    found = {name: value for name, value in state(root).items() if not name.startswith("jobs")}
    return {name: value for name, value in found.items() if ".attempt-" not in name}


def _said(work: Callable[[], None]) -> str:
    try:
        work()
    except (ValueError, OSError) as error:
        return str(error)
    return ""


def _problems(root: Path) -> list[str]:
    import jobs.verify
    from srrag.config.compose import configure

    try:
        return list(jobs.verify.run(configure("verify", [f"root={root}"]))["problems"])
    except (ValueError, OSError) as error:
        return [str(error)]


def base_of(work: Path) -> Path:
    """A root with a file of every kind, which a build has brought up to date."""
    made_base(work)
    base = work / "full"
    if not base.exists():
        shutil.copytree(work / "base", base)
        assert forked(lambda: _fill(base), work / "full.txt") == 0, (work / "full.txt").read_text()[
            -3000:
        ]
    return base


def _fill(folder: Path) -> None:
    from srrag.runner.deletion.tombstones import Tombstones
    from srrag.storage.store import Store

    root = folder / "root"
    Tombstones.of(root).add({}, ["nothing-of-this-name.md"])
    build(root, folder / "papers")
    bench = Store(root / "jobs" / "benchmark")
    bench.root.mkdir(parents=True)
    bench.create()
    asked = root / "stages" / "questions" / "f"
    shutil.copytree(asked, bench.root / "stages" / "questions" / "f")
    run_organize(folder)
    _write_outputs(root / "jobs")
    chunks = Store(root).read_pointer("default")["stages"]["vectors"]["fingerprint"]
    note = root / "stages" / "vectors" / chunks / ".attempt-0123.json"
    note.write_text('{"poison": [], "died": null, "deaths": 0, "row": 1}', "utf-8")
    (folder / "state.json").write_text(json.dumps(_state(root)), "utf-8")


def _write_outputs(jobs: Path) -> None:
    """An output of each kind."""
    from srrag.storage.atomic_write import commit_json
    from srrag.storage.manifest import seal
    from tests.unit.lab.report.toy_results import write_toy

    commit_json(jobs / "fit_betr" / "betr.json", {"weights": [1.0]}, sealed=True)
    for name in (
        "train_filter/model/weights.bin",
        "mine/notes.txt",
    ):
        path = jobs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"what {name} holds\n" * 8, "utf-8")
    seal(jobs / "train_filter" / "model")
    write_toy(jobs / "sweep")


def main(work: Path, only: Sequence[str] = ()) -> dict[str, Any]:
    """Every damage of every kind of file, or of some kinds; each case is written down at once."""
    base = base_of(work)
    listed = work / "kinds.json"

    def look() -> None:
        root = base / "root"
        found = {kind: path.relative_to(root).as_posix() for kind, path in kinds(root).items()}
        listed.write_text(json.dumps(found), "utf-8")

    assert forked(look, work / "kinds.txt") == 0, (work / "kinds.txt").read_text()[-2000:]
    table: dict[str, Any] = {}
    for kind, path in json.loads(listed.read_text("utf-8")).items():
        if only and kind not in only:
            continue
        table[kind] = {"path": path}
        for each in DAMAGES:
            folder = work / "damaged"
            table[kind][each] = tried(base, folder, path, each)
            shutil.rmtree(folder)
            with (work / "cases.jsonl").open("a") as file:
                file.write(json.dumps({"kind": kind, "damage": each, **table[kind][each]}) + "\n")
    return table


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2:]), indent=1))
