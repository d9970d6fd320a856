"""A tagger that only tags: read from a model file without scikit-learn, whose import takes longer than most files."""

from __future__ import annotations

from pathlib import Path

from spom.core.container import read_file
from spom.errors import ModelFileError
from spom.estimators.tagger.parts import TaggerParts
from spom.models.encoding import decode


def load_tagging(path: str | Path) -> TaggerParts:
    """What a tagger needs to tag; `spom.load_model` gives the whole estimator."""
    header, arrays = read_file(path)
    try:
        state = {name: decode(header.model["state"][name], arrays) for name in ("classes_", "kind")}
        return TaggerParts.of(state, arrays)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ModelFileError(f"{path}: a damaged model file, or one of another spom ({error})") from None
