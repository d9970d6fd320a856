"""Edit scripts from a form to its lemma, as labels: `running` to `run` is "remove 4 from the end"."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache


# case | removed from the front | added there | removed from the end | added there; or = and the whole lemma.
def lowered(text: str) -> str:
    """Return the text in lower case, one character for each: a capital I with a dot becomes a plain i."""
    return text.replace("\u0130", "i").lower()


_CASES: dict[str, Callable[[str], str]] = {
    "l": lowered,
    "k": str,
    "t": lambda text: text[:1].upper() + lowered(text[1:]),
    "u": str.upper,
}
_SEPARATOR = "\x1f"


@lru_cache(maxsize=1 << 16)
def script_of(form: str, lemma: str) -> str:
    """Return the script that turns the form into the lemma.

    >>> script_of("Running", "run").split(chr(31))
    ['l', '0', '', '4', '']
    >>> apply_script("Swimming", script_of("Running", "run"))
    'swim'
    """
    at, where, size = _longest_common(lowered(form), lowered(lemma))
    if size and len(form) == len(lowered(form)) and len(lemma) == len(lowered(lemma)):
        edits = (str(at), lemma[:where], str(len(form) - at - size), lemma[where + size :])
        for case in _CASES:
            script = _SEPARATOR.join((case, edits[0], edits[1].lower(), edits[2], edits[3].lower()))
            if apply_script(form, script) == lemma:
                return script
        script = _SEPARATOR.join(("k", *edits))
        if apply_script(form, script) == lemma:
            return script
    return "=" + lemma


def apply_script(form: str, script: str) -> str:
    """Return the lemma of a form under a script; a form that is too short for it is its own lemma, in lower case."""
    if script.startswith("="):
        return script[1:]
    case, first, before, end, after = _parts(script)
    last = len(form) - end
    # The case is changed after the edits, so that of added text changes too.
    found = before + form[first:last] + after
    return case(found) if last >= first and found else lowered(form)


@lru_cache(maxsize=1 << 12)
def _parts(script: str) -> tuple[Callable[[str], str], int, str, int, str]:
    case, front, before, end, after = script.split(_SEPARATOR)
    return _CASES[case], int(front), before, int(end), after


def _longest_common(a: str, b: str) -> tuple[int, int, int]:
    """Return (place in a, place in b, length) of the longest common substring; ties go to the first."""
    best = (0, 0, 0)
    row = [0] * (len(b) + 1)
    for i, x in enumerate(a, 1):
        before = 0
        for j, y in enumerate(b, 1):
            kept, row[j] = row[j], before + 1 if x == y else 0
            before = kept
            if row[j] > best[2]:
                best = (i - row[j], j - row[j], row[j])
    return best
