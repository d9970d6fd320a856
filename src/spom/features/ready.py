"""Sets of templates that are ready to use, by name."""

from __future__ import annotations

from spom.errors import Unsupported
from spom.features.atoms import Template


def _window(column: str, reach: int) -> list[str]:
    return [f"{column}[{offset}]" for offset in range(-reach, reach + 1)]


def _grams(column: str, length: int, reach: int) -> list[str]:
    """All runs of `length` neighbours within `reach` of the token."""
    starts = range(-reach, reach - length + 2)
    return ["|".join(f"{column}[{first + k}]" for k in range(length)) for first in starts]


def _affixes(column: str, longest: int) -> list[str]:
    return [f"{column}.{side}{k}[0]" for side in ("prefix", "suffix") for k in range(1, longest + 1)]


# Words and tags in a window of two with their bigrams and trigrams: the 19 of CRFsuite's chunking tutorial.
_CHUNKING = [
    *_window("w", 2),
    *_grams("w", 2, 1),
    *_window("pos", 2),
    *_grams("pos", 2, 2),
    *_grams("pos", 3, 2),
]
# What follows was chosen on the development parts of 19 taggings of 12 languages (see the guide's page on tagging):
# affixes in lower case to six beat ones to four by .003 on tags and .002 on entities; five are as good.
_POS = [
    *_window("w", 2),
    "w.lower[0]",
    *_affixes("w.lower", 6),
    "w.shape[0]",
    *_grams("w", 2, 1),
]
_ENTITIES = [
    *_window("w", 2),
    *(f"w.lower[{k}]" for k in (-1, 0, 1)),
    *_affixes("w.lower", 6),
    *(f"w.lower.suffix{length}[{k}]" for k in (-1, 1) for length in (2, 3)),
    *(f"w.shape[{k}]" for k in (-2, -1, 0, 1, 2)),
    "w.shape[-1]|w.shape[0]",
    "w.shape[0]|w.shape[1]",
    "w.shape[-1]|w.shape[0]|w.shape[1]",
    "w.case[-1]|w.case[0]|w.case[1]",
    "w.digit[0]",
    "w.length[0]",
    *_grams("w", 2, 1),
    "w[-1]|w.shape[0]",
    "w.shape[0]|w[1]",
]
_TAGS = [*_window("pos", 2), *_grams("pos", 2, 2), *_grams("pos", 3, 2)]

SETS: dict[str, list[str]] = {"chunking": _CHUNKING, "pos": _POS, "entities": _ENTITIES, "tags": _TAGS}


def ready(name: str) -> list[Template]:
    """The templates of a set: `"chunking"` (words and tags), `"pos"` or `"entities"` (words), `"tags"` (tags alone).

    >>> [template.name for template in ready("chunking")][5:8]
    ['w[-1]|w[0]', 'w[0]|w[1]', 'pos[-2]']
    """
    if name not in SETS:
        raise Unsupported(f"there is no set of templates {name!r}, and no such file; the sets are: {', '.join(SETS)}")
    return [Template.parse(text) for text in SETS[name]]
