"""Generated sentences of recipes with trees, as CoNLL-U: a treebank that needs no download."""

from __future__ import annotations

import numpy as np

_VERBS = ("Chop", "Boil", "Fry", "Wash", "Grill", "Slice", "Peel", "Stir", "Taste", "Weigh", "Cover", "Drain")
_FOODS = {"onions": "onion", "carrots": "carrot", "leeks": "leek", "rice": "rice", "beans": "bean", "milk": "milk"}
_FOODS |= {"potatoes": "potato", "eggs": "egg", "butter": "butter", "lentils": "lentil", "mushrooms": "mushroom"}
_PLACES = ("pan", "bowl", "pot", "oven", "sieve", "dish", "wok", "jar")
_KINDS = ("large", "small", "fresh", "red", "hot", "clean", "old", "dry")
# A word: form, lemma, UPOS, features, distance to its head in words, relation, whether a blank follows.
_Word = tuple[str, str, str, str, int, str, bool]


def kitchen(sentences: int, seed: int = 0) -> str:
    """Generate sentences such as `Don't boil the red onions in a small pan.`, four per paragraph, in CoNLL-U.

    >>> print(kitchen(1).splitlines()[1])
    # text = Cover the large eggs.
    """
    random, lines = np.random.default_rng(seed), []
    for s in range(sentences):
        words = _sentence(random)
        text = "".join(word[0] + " " * word[6] for word in words if word[0] != "n't")
        text = text.replace("Do ", "Don't ").strip()
        lines += ["# newpar"] * (s % 4 == 0) + [f"# text = {text}"]
        for i, (form, lemma, upos, feats, away, relation, blank) in enumerate(words, 1):
            if form == "Do":
                lines.append("1-2\tDon't" + "\t_" * 8)
            head = str(i + away) if away else "0"
            misc = "_" if blank else "SpaceAfter=No"
            lines.append("\t".join((str(i), form, lemma, upos, "_", feats, head, relation, "_", misc)))
        lines.append("")
    return "\n".join([*lines, ""])


def _sentence(random: np.random.Generator) -> list[_Word]:
    verb = str(random.choice(_VERBS))
    words: list[_Word] = [(verb, verb.lower(), "VERB", "Mood=Imp|VerbForm=Fin", 0, "root", True)]
    if random.random() < 0.25:
        words = [
            ("Do", "do", "AUX", "Mood=Imp|VerbForm=Fin", 2, "aux", True),
            ("n't", "not", "PART", "Polarity=Neg", 1, "advmod", True),
            (verb.lower(), verb.lower(), "VERB", "VerbForm=Inf", 0, "root", True),
        ]
    root = len(words) - 1
    food = str(random.choice(list(_FOODS)))
    plural = "Number=Plur" if _FOODS[food] != food else "Number=Sing"
    words += _phrase(random, "the", food, _FOODS[food], plural, root - len(words), "obj")
    if random.random() < 0.6:
        place = str(random.choice(_PLACES))
        words += _phrase(random, "a", place, place, "Number=Sing", root - len(words), "obl", "in")
    form, lemma, upos, feats, away, relation, _ = words[-1]
    words[-1] = (form, lemma, upos, feats, away, relation, False)
    mark = "!" if random.random() < 0.15 else "."
    return [*words, (mark, mark, "PUNCT", "_", root - len(words), "punct", True)]


def _phrase(
    random: np.random.Generator,
    article: str,
    noun: str,
    lemma: str,
    feats: str,
    root: int,
    relation: str,
    case: str = "",
) -> list[_Word]:
    """Generate a noun with the words before it; `root` is the distance from its first word to the verb."""
    before: list[tuple[str, str, str, str]] = [(case, "ADP", "_", "case")] if case else []
    kind = "Definite=Def|PronType=Art" if article == "the" else "Definite=Ind|PronType=Art"
    before.append((article, "DET", kind, "det"))
    if random.random() < 0.5:
        before.append((str(random.choice(_KINDS)), "ADJ", "Degree=Pos", "amod"))
    count = len(before)
    found: list[_Word] = [
        (form, form, upos, own, count - k, name, True) for k, (form, upos, own, name) in enumerate(before)
    ]
    return [*found, (noun, lemma, "NOUN", feats, root - count, relation, True)]
