"""Repair a root: remove and report damaged files, so that the build makes them again.

Everything can be made again except the corpus and the answers of a model. The corpus may no longer
hold the documents of a damaged raw part; unreadable answers in the log are asked for again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from srrag.core.stage import Plan
from srrag.engine.log.completion_log import CompletionLog
from srrag.runner.deletion.tombstones import Tombstones
from srrag.runner.ingest import known_rows
from srrag.runner.pipeline_run import settled_embedder
from srrag.runner.progress import say
from srrag.runner.relation_builds import entries_of, manifest_of
from srrag.runner.verify import amiss, damaged_parts
from srrag.storage import mirror
from srrag.storage.atomic_write import commit_json, read_json, read_object
from srrag.storage.manifest import DamagedError, check_files
from srrag.storage.mirror import discard
from srrag.storage.store import Store


def mend_marker(store: Store) -> list[str]:
    """Restore the damaged or missing marker of a root; leaves folders that are no root alone."""
    marker = store.root / "srrag.json"
    is_root = (store.root / "stages").is_dir() or (store.root / "builds").is_dir()
    if marker.exists():
        try:
            store.check()
            return []
        except DamagedError as error:
            is_root = True
            told = str(error)
    elif is_root:
        told = f"{marker} is missing"
    if not is_root:
        return []
    settled = settled_embedder(store.root)  # of its builds, since the marker is gone
    store.write_marker({"embedder": settled} if settled else {})
    return [_said(f"{told.partition(';')[0]}: written again")]


@dataclass
class Repair:
    """The repair of one build under the lock of the root; `done` lists its actions."""

    store: Store
    plan: Plan
    name: str
    log: Path
    done: list[str] = field(default_factory=list)
    lost: dict[str, set[str]] = field(default_factory=dict)
    """The readable document ids of each removed raw part."""

    def run(self) -> None:
        """Repair what the build cannot, and remove the damaged files that it makes again.

        Raises ValueError that names damage beyond repair.
        """
        self.done += map(_said, Tombstones.mend(self.store.root))
        self._mend_pointer()
        self._mend_manifests()
        for stage, parts in self._damaged_parts():
            self._drop(stage, parts)
        for path, problem in damaged_parts(self.store.root):
            for file in (path, path.with_suffix(".json")):
                mirror.remove(file)
            self._say(f"{problem.partition(';')[0]}: removed; what asks for it makes it again")
        self._mend_log()

    def report(self, parts: Sequence[str]) -> None:
        """Report the lost documents that the scanned corpus no longer holds."""
        source = self.plan.fingerprint(self.plan.source)
        here = known_rows(self.store, source, parts) if self.lost else {}
        for part, ids in self.lost.items():
            gone = sorted(ids - here.keys())
            if not ids:
                self._say(f"raw part {part}: which documents it held can no longer be told")
            elif gone:
                few = ", ".join(gone[:5]) + (", …" if len(gone) > 5 else "")
                self._say(
                    f"raw part {part}: {len(gone)} of its {len(ids)} documents cannot be made "
                    f"again, since the corpus does not hold them: {few}"
                )

    def _mend_pointer(self) -> None:
        """Restore a damaged or missing pointer as far as possible: the parts of the corpus."""
        path = self.store.pointer_path(self.name)
        try:
            self.store.read_pointer(self.name)
            return
        except ValueError as error:
            told = str(error).partition(";")[0]
        parts = self._parts_of_builds()
        if not path.exists() and not parts:
            return
        source = {"fingerprint": self.plan.fingerprint(self.plan.source), "parts": parts}
        pointer = {"build": self.name, "stages": {self.plan.source: source}}
        self.store.write_pointer(self.name, pointer)
        self._say(f"{told}: made again of {len(parts)} parts that stand")

    def _parts_of_builds(self) -> list[str]:
        """Return the parts of most builds of this plan, of the newest among equals; else all parts.

        A build that another configuration shares may be newer, but has read other parts alone.
        """
        steps = {stage.name for stage in self.plan.steps}
        found: set[tuple[str, ...]] = set()
        for stage in self.plan.builds:
            for path in (self.store.root / "stages" / stage.name).glob("*/manifest.json"):
                read = read_object(path).get("contents") or {}
                found |= {tuple(sorted(read[name])) for name in steps & read.keys()}
        built = {parts: times for parts in found if (times := self._built_of(parts))}
        if not built:
            source = self.plan.source
            return sorted(self.store.parts(source, self.plan.fingerprint(source)))
        newest, _ = max(built.items(), key=lambda item: (len(item[1]), max(item[1])))
        return list(newest)

    def _built_of(self, parts: Sequence[str]) -> list[float]:
        """Return when each build of this plan was made of these parts, if it stands."""
        paths = (
            self.store.stage_dir(stage.name, self.plan.fingerprint(stage.name, parts))
            / "manifest.json"
            for stage in self.plan.builds
        )
        return [path.stat().st_mtime for path in paths if path.exists()]

    def _mend_manifests(self) -> None:
        """Rewrite the manifests of steps; remove builds with a damaged manifest or file.

        A damaged folder of another configuration goes too, unless a pointer names it; a run of that
        build then repairs it.
        """
        steps = {
            self.store.stage_dir(stage.name, self.plan.fingerprint(stage.name)): stage
            for stage in self.plan.steps
        }
        named = self._named()
        for folder in sorted((self.store.root / "stages").glob("*/*")):
            path = folder / "manifest.json"
            if stage := steps.get(folder):
                wanted = manifest_of(stage, self.plan.fingerprint(stage.name))
                if problem := _problem(path, wanted):
                    commit_json(path, wanted, sealed=True)
                    self._say(f"{mirror.shown(path)} {problem}: written again")
            elif path.exists() and (problem := _broken(folder)):
                mine = any(each.name == folder.parent.name for each in self.plan.builds)
                if (others := named.get(folder, set()) - {self.name}) and not mine:
                    self._say(f"{problem}: build={min(others)} mends it, with repair=true")
                else:
                    discard(folder)
                    self._say(f"{problem}: removed, to be built again where it is needed")

    def _named(self) -> dict[Path, set[str]]:
        """Return the folders that pointers name, each with the names of those pointers."""
        named: dict[Path, set[str]] = {}
        for build in self.store.builds():
            try:
                folders = self.store.artifacts(build).values()
            except ValueError as error:
                self._say(f"{str(error).partition(';')[0]}: build={build} mends it")
                continue
            for folder in folders:
                named.setdefault(folder, set()).add(build)
        return named

    def _damaged_parts(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield the damaged parts of each stage with the reason, the last stage first."""
        known = []
        if self.store.pointer_path(self.name).exists():
            known = self.store.read_pointer(self.name)["stages"].get(self.plan.source, {})["parts"]
        entries = entries_of(self.plan, known)
        names = [name for name, entry in entries.items() if "parts" in entry]
        here = {
            (name, part)
            for name in names
            for part in known
            if _is_here(self.store.part_path(name, entries[name]["fingerprint"], part))
        }
        for name in reversed(names):
            found = {}
            for part in known:
                if (name, part) not in here:
                    continue
                if problems := amiss(self.store, entries, name, part):
                    found[part] = problems[0]
            yield name, found

    def _drop(self, stage: str, parts: dict[str, str]) -> None:
        fingerprint = self.plan.fingerprint(stage)
        for part, problem in parts.items():
            if stage == self.plan.source:
                self.lost[part] = self._documents(part)
            self.store.drop_part(stage, fingerprint, part)
            self._say(f"{problem}: removed, to be made again")

    def _documents(self, part: str) -> set[str]:
        """Read the document ids of a raw part from the part, or from later stages."""
        names = [self.plan.source, *(stage.name for stage in self.plan.steps)]
        for name in names:
            try:
                table = self.store.read_part(
                    name, self.plan.fingerprint(name), part, ["raw_id"], checked=name != names[0]
                )
            except (ValueError, OSError, KeyError):
                continue
            if "raw_id" in table.column_names:
                return set(table["raw_id"].to_pylist())
        return set()

    def _mend_log(self) -> None:
        if not self.log.exists():
            return
        log = CompletionLog(self.log)
        with log.locked():
            for line in log.mend():
                self._say(line)

    def _say(self, line: str) -> None:
        self.done.append(_said(line))


def _is_here(path: Path) -> bool:
    """Whether a part is to be looked at; of an object store, only what has a copy here.

    The copy becomes the current version first: it may be older than the receipt beside it.
    """
    receipt = path.with_suffix(".json")
    if not mirror.store_at(path):
        return path.exists() or receipt.exists()
    if path.exists():
        mirror.bring(path)
        mirror.bring(receipt)
    return path.exists()


def _said(line: str) -> str:
    say(f"repair: {line}")
    return line


def _problem(path: Path, wanted: dict[str, Any]) -> str | None:
    """Return what is wrong with a manifest; None if it is right, or not written yet."""
    if path.exists():
        return manifest_problem(path, wanted)
    return "is missing" if any(path.parent.glob("part-*.json")) else None


def manifest_problem(path: Path, wanted: dict[str, Any]) -> str | None:
    """Return how the manifest of a step differs from that which its stage has; None if it is it."""
    try:
        found = read_json(path)
        same = all(found[key] == wanted[key] for key in wanted)
        return None if same else "is not that of its stage"
    except (ValueError, KeyError, TypeError):
        return "is damaged"


def _broken(folder: Path) -> str | None:
    """Return what is wrong with a build's folder or a step's manifest; None if nothing is."""
    path = folder / "manifest.json"
    try:
        manifest = read_json(path)
        if not isinstance(manifest, dict) or manifest.get("fingerprint") != folder.name:
            return f"{mirror.shown(path)} is of another stage"
        if "files" in manifest:
            check_files(folder, read=True)
    except ValueError as error:
        return str(error).partition(";")[0]
    return None
