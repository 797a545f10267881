"""The file of weights that `FuseFeatures` ranks by, as `srrag fit_betr features=…` writes it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from srrag.algo.betr import GRADES
from srrag.model.encoder import COLBERT, Encoder
from srrag.spec import spec
from srrag.storage.atomic_write import parse_json
from srrag.storage.mirror import bring

PACKAGED = "features.json"
_ARITHMETIC = ("backend", "_target_", "_version_")


@dataclass(frozen=True)
class FeatureWeights:
    """The weight of each feature, at least 0, and the bias of each grade, u_A = 0 ≥ … ≥ u_E."""

    weights: Mapping[str, float]
    u: tuple[float, ...]


def fit_name(features: Sequence[str]) -> str:
    """The name of the fit to these features: `dense+maxsim+sparse`."""
    return "+".join(sorted(features))


def embedder_name(encoder: Encoder) -> dict[str, Any]:
    """What an encoder is apart from its arithmetic: float32, bfloat16 and int8 rank alike."""
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
        return parse_weights(parse_json(text, path), features, encoder)
    except KeyError as error:
        raise ValueError(f"{path}: not what `srrag fit_betr features=…` writes: {error}") from error
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error


def parse_weights(
    stated: Mapping[str, Any], features: Sequence[str], encoder: Encoder
) -> FeatureWeights:
    """The fit to these features; raises ValueError for what `read_weights_file` refuses."""
    here, theirs = embedder_name(encoder), dict(stated["embedder"])
    if here != theirs:
        raise ValueError(
            f"its weights were fitted to the scores of {theirs['model']}, not of {here['model']}; "
            "`srrag fit_betr features=…` fits them to these"
        )
    name, fits = fit_name(features), stated["fits"]
    if name not in fits:
        raise ValueError(f"there is no fit to the features {name}, only to {', '.join(fits)}")
    weights = {key: float(each["value"]) for key, each in fits[name]["features"].items()}
    u = tuple(float(fits[name]["u"][grade]["value"]) for grade in GRADES)
    if not all(0 <= each < math.inf for each in weights.values()) or not any(weights.values()):
        raise ValueError("weights have to be numbers of at least 0, one of them above it")
    if u[0] != 0 or list(u) != sorted(u, reverse=True) or not math.isfinite(u[-1]):
        raise ValueError("the biases of grades have to fall from u_A = 0")
    return FeatureWeights(weights, u)
