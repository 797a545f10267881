"""Run the builds of a plan on whole relations; each version has its own folder.

An update answers as a build from nothing does, unless the Build `remembers`. In that case the
previous version is one of its inputs, and the manifest records that version (`former`).
"""

from __future__ import annotations

import dataclasses
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from srrag.core.spec import file_sha256, spec
from srrag.core.spec import fingerprint as hashed
from srrag.core.stage import Plan, Stage
from srrag.core.step import Build, Place, PreviousVersion, Step
from srrag.llm.completion import Usage, tallied
from srrag.runner.engines import engines_of
from srrag.runner.progress import built, say
from srrag.runner.runner import Runner
from srrag.storage import mirror
from srrag.storage.atomic_write import commit_json, naming_a_full_disk, read_json
from srrag.storage.manifest import check_files, manifest_files, stamps
from srrag.storage.store import Store

Contents = Mapping[str, Mapping[str, str]]
"""The contents that a build has read: for each input stage, the sha256 of each part or file."""


class _Inputs(dict[str, list[Path]]):
    """The inputs of a stage by name; a build that asks for another is told so."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self._stage = stage

    def __missing__(self, name: str) -> list[Path]:
        held = ", ".join(self._stage.inputs)
        raise ValueError(
            f"stages.{self._stage.name}: its run asks for the input {name!r}; its inputs are {held}"
        )


@dataclass(frozen=True)
class RelationBuilds:
    """The builds of one run; the pointer `name` leads to the previous version.

    Without `update`, builds that remember start from nothing. The same applies during a deletion,
    since the result must not depend on deleted documents.
    """

    store: Store
    plan: Plan
    name: str
    runner: Runner
    parts: tuple[str, ...]
    update: bool = True

    def run(self, stage: Stage, at: Place) -> bool:
        """Build a folder unless it exists intact; returns whether it existed."""
        fingerprint = self.plan.fingerprint(stage.name, self.parts)
        final = self.store.stage_dir(stage.name, fingerprint)
        contents = self._contents(stage)
        if self._reusable(stage, final, contents):
            return True
        former = self._former(stage, contents)
        started = time.perf_counter()
        out = final.with_name(f".{fingerprint}.{uuid.uuid4().hex}")
        out.mkdir(parents=True)
        try:
            with tallied() as usage, naming_a_full_disk(out):
                figures = self._made(stage, former, out, at)
            manifest = {
                **manifest_of(stage, fingerprint),
                "contents": contents,
                "former": version_of(former.folder) if former and _remembers(stage) else None,
                "figures": figures,
                "usage": usage.as_dict() if usage != Usage() else {},
                "seconds": round(time.perf_counter() - started, 3),
                "files": (files := _hashes(out, former)),
                "stamps": stamps(out, files),
            }
            commit_json(out / "manifest.json", manifest, sealed=True)
            mirror.move_folder(out, final)
        finally:
            mirror.remove_folder(out)
        built(stage.name)
        return False

    def _made(
        self, stage: Stage, former: PreviousVersion | None, out: Path, at: Place
    ) -> dict[str, Any]:
        """Build, or update the previous version, with the engine of the build running."""
        assert isinstance(stage.run, Build)
        inputs = self.inputs(stage)
        models = engines_of([stage.run])
        gpus = stage.resources.gpus
        with self.runner.engines(models, at) as engines, self.runner.spread(gpus) as spread:
            place = dataclasses.replace(stage.placed(at), clients=engines.clients, spread=spread)
            if former is None:
                figures = dict(stage.run.build(inputs, out, place))
            else:
                figures = dict(stage.run.update(inputs, out, place, former))
        mirror.join(out)
        return figures

    def inputs(self, stage: Stage) -> dict[str, list[Path]]:
        """Return the inputs of a build: local folders of builds, and parts of steps.

        A build reads parts on an object store in place, and only the columns that it needs.
        """
        builds = {item.name for item in self.plan.builds}
        found = _Inputs(stage)
        for name in stage.inputs:
            if name in builds:
                folder = self.store.stage_dir(name, self.plan.fingerprint(name, self.parts))
                found[name] = [mirror.pull_build(folder)]
            else:
                folder = self.store.stage_dir(name, self.plan.fingerprint(name))
                found[name] = [folder / f"part-{part}.parquet" for part in sorted(self.parts)]
        return found

    def _contents(self, stage: Stage) -> dict[str, dict[str, str]]:
        """Return the sha256 of each part and file that a build reads.

        The fingerprint covers only names, and a part that was made again keeps its name.
        """
        contents = {}
        for item in self.plan.stages:
            if item.name not in stage.inputs:
                continue
            fingerprint = self.plan.fingerprint(item.name, self.parts)
            parts = {} if isinstance(item.run, Build) else {"parts": sorted(self.parts)}
            contents[item.name] = self.store.held(item.name, {"fingerprint": fingerprint, **parts})
        return contents

    def _from_nothing(self, stage: Stage) -> bool:
        """Whether a stage must ignore its previous versions."""
        forgetting = (self.store.root / "forgetting.json").exists()
        return _remembers(stage) and (forgetting or not self.update)

    def _reusable(self, stage: Stage, folder: Path, contents: Contents) -> bool:
        if not _stands(folder, contents):
            return False
        return not (self._from_nothing(stage) and read_json(folder / "manifest.json").get("former"))

    def _former(self, stage: Stage, contents: Contents) -> PreviousVersion | None:
        """Return the pointer's version, if the same build made it and it is intact; else None."""
        if not _updates(stage) or self._from_nothing(stage):
            return None
        if not self.store.pointer_path(self.name).exists():
            return None
        entry = self.store.read_pointer(self.name)["stages"].get(stage.name)
        if entry is None:
            return None
        folder = self.store.stage_dir(stage.name, entry["fingerprint"])
        if not _stands(folder):
            return None
        manifest = read_json(folder / "manifest.json")
        made_by = (manifest["spec"], manifest["identity"])
        if made_by != (spec(stage.run), stage.run.identity()) or "contents" not in manifest:
            return None
        steps = {item.name for item in self.plan.steps}
        kept = frozenset(
            self.store.part_path(name, self.plan.fingerprint(name), part)
            for name in steps & set(contents)
            for part, sha256 in contents[name].items()
            if manifest["contents"].get(name, {}).get(part) == sha256
        )
        return PreviousVersion(mirror.pull_build(folder), kept)


def manifest_of(stage: Stage, fingerprint: str) -> dict[str, Any]:
    """Return the manifest of a stage."""
    return {
        "stage": stage.name,
        "fingerprint": fingerprint,
        "spec": spec(stage.run),
        "identity": stage.run.identity(),
        "inputs": list(stage.inputs),
    }


def entries_of(plan: Plan, parts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return what a pointer to these parts says of each stage of a plan."""
    source = {"fingerprint": plan.fingerprint(plan.source), "parts": list(parts)}
    entries: dict[str, dict[str, Any]] = {plan.source: source}
    for stage in plan.stages:
        engine = getattr(stage.run, "engine", None)
        entries[stage.name] = {
            "fingerprint": plan.fingerprint(stage.name, parts),
            "inputs": list(stage.inputs),
            "engine": getattr(stage.run, "answered_by", engine.name if engine else None),
        }
        if isinstance(stage.run, Step):
            entries[stage.name] |= {"parts": list(parts), "keeps_rows": stage.run.keeps_rows}
    return entries


def version_of(folder: Path) -> str:
    """Hash the fingerprint, the contents and the former version of a build's version."""
    manifest = read_json(folder / "manifest.json")
    return hashed(manifest["fingerprint"], manifest.get("contents"), manifest.get("former"))


def _hashes(out: Path, former: PreviousVersion | None) -> dict[str, str]:
    """The sha256 of each file; a link to a file of the former version has that file's."""
    known = manifest_files(former.folder) if former else {}
    found = {}
    for path in sorted(path for path in out.rglob("*") if path.is_file()):
        name = path.relative_to(out).as_posix()
        linked = former and name in known and path.samefile(former.folder / name)
        found[name] = known[name] if linked else file_sha256(path)
    return found


def _updates(stage: Stage) -> bool:
    """Whether a build updates its previous version; other builds ignore it."""
    return isinstance(stage.run, Build) and type(stage.run).update is not Build.update


def _remembers(stage: Stage) -> bool:
    return isinstance(stage.run, Build) and stage.run.remembers


def _stands(folder: Path, contents: Contents | None = None) -> bool:
    """Whether a build exists, is intact and was made from these contents."""
    if not mirror.exists(folder / "manifest.json"):
        return False
    try:
        manifest_files(folder)
        if contents is not None and read_json(folder / "manifest.json")["contents"] != contents:
            return False
        if mirror.store_at(folder):
            _check_names(folder)
        else:
            check_files(folder)
    except (ValueError, KeyError) as error:
        say(f"built again: {error}")
        return False
    return True


def _check_names(folder: Path) -> None:
    """Raise ValueError if an object store lacks a file of a build's manifest.

    Uploads to an object store are atomic, and hashing a file would mean to download it.
    """
    if missing := manifest_files(folder).keys() - mirror.files(folder):
        raise ValueError(f"{mirror.shown(folder / min(missing))} is missing")
