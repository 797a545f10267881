"""The identity of a step as JSON; manifests, Serve arguments and YAML use the same JSON.

`spec(x)` renders a frozen dataclass with `_target_` (its kind, see `srrag.core.kinds`),
`_version_` and the fields that differ from their defaults; `build(spec)` recreates the object. A
field with `metadata={"identity": False}` says where something runs (a path, a device), so the
identity omits it.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import json
import math
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from srrag.core.kinds import class_of, kind_of

_BLOCK_BYTES = 1 << 20


def content_id(*parts: str) -> str:
    """Return the 16-byte blake2b of length-prefixed parts as 32 hex digits.

    The length prefix keeps ("ab", "c") and ("a", "bc") apart.
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "little"))
        digest.update(encoded)
    return digest.hexdigest()


def segment_id(row_ids: Iterable[str]) -> str:
    """Name a segment of rows by its content: the hash of its row ids in order."""
    return content_id(*row_ids)


def evidence_id(kind: str, unit_id: str, text: str) -> str:
    """Return the id of a piece of evidence: its kind, unit and text.

    The id of a window is a hash of its document and span, so a window needs no text.
    """
    return content_id(kind, unit_id) if kind == "window" else content_id(kind, unit_id, text)


def question_id(unit_id: str) -> str:
    """Return the id of the question written from a window; it identifies the window."""
    return content_id("question", unit_id)


def file_sha256(path: Path) -> str:
    """Return the sha256 of a file as hex, read in blocks of 1 MiB."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def place_field(default: Any = dataclasses.MISSING) -> Any:
    """Declare a dataclass field that is no part of the identity, such as a path or a device."""
    return dataclasses.field(default=default, metadata={"identity": False})


def spec(value: Any) -> Any:
    """Render a value as JSON; raises TypeError or ValueError for values that have no identity."""
    if value is None or (isinstance(value, (bool, int, str)) and not isinstance(value, enum.Enum)):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} cannot be part of an identity: only finite numbers can")
        return value
    if isinstance(value, enum.Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _dataclass_spec(value)
    if isinstance(value, (list, tuple)):
        return [spec(item) for item in value]
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise TypeError("a mapping in an identity needs string keys")
        return {key: spec(value[key]) for key in sorted(value)}
    raise TypeError(f"{type(value).__module__}.{type(value).__qualname__} cannot be an identity")


def _dataclass_spec(value: Any) -> dict[str, Any]:
    cls = type(value)
    rendered: dict[str, Any] = {"_target_": kind_of(cls)}
    if version := getattr(cls, "version", None):
        rendered["_version_"] = version
    hints = typing.get_type_hints(cls)
    for field in dataclasses.fields(value):
        if not field.metadata.get("identity", True):
            continue
        item = coerce(getattr(value, field.name), hints[field.name])
        if item != _default(field):
            rendered[field.name] = spec(item)
    return rendered


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return dataclasses.MISSING


def coerce(value: Any, annotation: Any) -> Any:
    """Convert a value to its annotated type: 1 and 1.0, or a list and a tuple, become equal."""
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        options = [option for option in typing.get_args(annotation) if option is not type(None)]
        return value if value is None or len(options) != 1 else coerce(value, options[0])
    if origin is tuple and isinstance(value, (list, tuple)):
        args = typing.get_args(annotation)
        if len(args) == 2 and args[1] is Ellipsis:
            return tuple(coerce(item, args[0]) for item in value)
        return tuple(value)
    if origin is list and isinstance(value, (list, tuple)):
        return [coerce(item, typing.get_args(annotation)[0]) for item in value]
    if annotation is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return annotation(value)
    return value


def build(config: Any) -> Any:
    """Create the object that a spec (or YAML) names, bottom up.

    Raises ValueError that names the unknown kind, the unknown field or the missing field.
    """
    if isinstance(config, Mapping):
        built = {key: build(item) for key, item in config.items() if key != "_version_"}
        if "_target_" not in built:
            return built
        return _construct(str(built.pop("_target_")), built)
    if isinstance(config, (list, tuple)):
        return [build(item) for item in config]
    return config


def _construct(target: str, arguments: dict[str, Any]) -> Any:
    cls = class_of(target)
    if not dataclasses.is_dataclass(cls):
        raise ValueError(f"_target_ {target!r} is not a dataclass")
    return construct(cls, arguments)


def construct(cls: type, arguments: Mapping[str, Any]) -> Any:
    """Create a dataclass from plain values; raises ValueError that names the wrong field."""
    kind = cls.__name__
    hints = typing.get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init}
    for name in arguments:
        if name not in fields:
            raise ValueError(f"{kind}: unknown field {name!r}; it has {', '.join(fields)}")
    for name, field in fields.items():
        if name not in arguments and _default(field) is dataclasses.MISSING:
            raise ValueError(f"{kind}: field {name!r} is missing")
    coerced = {name: coerce(item, hints[name]) for name, item in arguments.items()}
    for name, item in coerced.items():
        if not fits(item, hints[name]):
            wanted = getattr(hints[name], "__name__", hints[name])
            raise ValueError(f"{kind}: {name}={item!r} is no {wanted}")
    return cls(**coerced)


def fits(value: Any, annotation: Any) -> bool:
    """Whether a value has its annotated type; annotations of other kinds always fit."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, option) for option in args)
    if origin is tuple and isinstance(value, tuple) and args[1:] == (Ellipsis,):
        return all(each is None or fits(each, args[0]) for each in value)  # null: left out
    if origin is Mapping and isinstance(value, Mapping):
        return all(fits(each, args[1]) for each in value.values())
    if annotation in (int, float):
        numbers = int if annotation is int else (int, float)
        return isinstance(value, numbers) and not isinstance(value, bool)
    if annotation in (str, bool, type(None)) or dataclasses.is_dataclass(annotation):
        return isinstance(value, annotation)
    return True


def canonical(value: Any) -> str:
    """Render JSON with sorted keys and no blanks: equal content gives equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def fingerprint(*values: Any) -> str:
    """Hash JSON-able values and specs to 20 hex digits."""
    digest = hashlib.blake2b(digest_size=10)
    for value in values:
        digest.update(canonical(value).encode())
        digest.update(b"\0")
    return digest.hexdigest()
