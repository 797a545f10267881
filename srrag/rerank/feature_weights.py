"""The file of weights that `FuseFeatures` ranks by, as `srrag fit_betr features=…` writes it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from srrag.algo.betr import GRADES
from srrag.algo.classification import FOLDS
from srrag.core.provenance import NOT_KNOWN, Fitted, read_fitted
from srrag.core.spec import spec
from srrag.model.encoder import COLBERT, Encoder
from srrag.storage.atomic_write import parse_json
from srrag.storage.mirror import bring

PACKAGED = "features.json"
_ARITHMETIC = ("backend", "_target_", "_version_")


@dataclass(frozen=True)
class FeatureWeights:
    """The weight of each feature, at least 0, and the bias of each grade, u_A = 0 ≥ … ≥ u_E."""

    weights: Mapping[str, float]
    u: tuple[float, ...]
    folds: tuple[FeatureWeights, ...] = ()
    """For each fold of questions the weights that were fitted to the others."""
    fitted: Fitted = NOT_KNOWN


def fit_name(features: Sequence[str]) -> str:
    """The name of the fit to these features: `dense+maxsim+sparse`."""
    return "+".join(sorted(features))


def embedder_name(encoder: Encoder) -> dict[str, Any]:
    """The name of an encoder without its arithmetic: float32, bfloat16 and int8 rank alike."""
    stated = {key: item for key, item in spec(encoder).items() if key not in _ARITHMETIC}
    return {**stated, "model": encoder.model, "late": encoder.backend == COLBERT}


def read_weights_file(model: str, features: Sequence[str], encoder: Encoder) -> FeatureWeights:
    """Read the fit to these features; "" reads the packaged file.

    Raises ValueError in one line that names the file, for another embedder or for features that
    nobody fitted weights to.
    """
    if model:
        path = bring(Path(model))
        if not path.is_file():
            raise ValueError(
                f"{model}: there is no such file; `srrag fit_betr features=…` makes it"
            )
        text = path.read_bytes()
    else:
        path = Path("srrag/rerank") / PACKAGED
        text = files("srrag.rerank").joinpath(PACKAGED).read_bytes()
    try:
        return parse_weights(parse_json(text, path), features, encoder, path)
    except KeyError as error:
        raise ValueError(f"{path}: not what `srrag fit_betr features=…` writes: {error}") from error
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error


def parse_weights(
    stated: Mapping[str, Any], features: Sequence[str], encoder: Encoder, path: object = ""
) -> FeatureWeights:
    """The fit to these features; raises ValueError for what `read_weights_file` refuses."""
    here, theirs = embedder_name(encoder), dict(stated["embedder"])
    if here != theirs:
        named = [
            each["model"] if here["model"] != theirs["model"] else f"{each['model']} ({each})"
            for each in (theirs, here)
        ]
        raise ValueError(
            f"its weights were fitted to the scores of {named[0]}, not of {named[1]}; "
            "`srrag fit_betr features=…` fits them to these"
        )
    name, fits = fit_name(features), stated["fits"]
    if name not in fits:
        raise ValueError(f"there is no fit to the features {name}, only to {', '.join(fits)}")
    fit = fits[name]
    weights = {key: each["value"] for key, each in fit["features"].items()}
    u = {key: each["value"] for key, each in fit["u"].items()}
    folds = tuple(_checked(each["features"], each["u"]) for each in fit.get("folds", ()))
    if folds and len(folds) != FOLDS:
        raise ValueError(f"it has weights for {len(folds)} folds of {FOLDS}")
    whole = _checked(weights, u)
    return replace(whole, folds=folds, fitted=read_fitted(stated, "features", path))


def _checked(weights: Mapping[str, Any], u: Mapping[str, Any]) -> FeatureWeights:
    found = {key: float(each) for key, each in weights.items()}
    falls = tuple(float(u[grade]) for grade in GRADES)
    if not all(0 <= each < math.inf for each in found.values()) or not any(found.values()):
        raise ValueError("weights have to be numbers of at least 0, one of them above it")
    if falls[0] != 0 or list(falls) != sorted(falls, reverse=True) or not math.isfinite(falls[-1]):
        raise ValueError("the biases of grades have to fall from u_A = 0")
    return FeatureWeights(found, falls)
