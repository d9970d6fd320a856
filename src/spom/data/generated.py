"""Generated data: ingredients of recipes with labelled parts, and words of handwritten digits.

Both are for demonstrations and tests that need no download. Results on them hold for these data only and do not
predict results on real data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spom.core.arrays import Floats, Ints
from spom.data.columns import Columns

# --- ingredients of recipes ---------------------------------------------------------------------------

_UNITS = {
    "weigh": ["g", "kg", "grams", "ounces", "pounds", "oz"],
    "pour": ["cup", "cups", "tablespoon", "tablespoons", "teaspoons", "ml", "dl", "litre"],
    "count": ["cloves", "slices", "sprigs", "stalks", "handfuls", "pieces", "leaves"],
    "pack": ["can", "cans", "jar", "packet", "bunch", "bag"],
}
# (kind of unit, head of the name, words that may precede it as a part of the name)
_FOODS: list[tuple[str, str, list[str]]] = [
    ("weigh", "flour", ["plain", "wholemeal", "rye", "self-raising"]),
    ("weigh", "sugar", ["brown", "caster", "icing", "palm"]),
    ("weigh", "beef", ["ground", "stewing", "roast"]),
    ("weigh", "butter", ["salted", "unsalted", "peanut", "almond"]),
    ("weigh", "almonds", ["whole", "salted"]),
    ("weigh", "rice", ["brown", "wild", "basmati"]),
    ("weigh", "chocolate", ["dark", "white", "milk"]),
    ("weigh", "potatoes", ["sweet", "new", "floury"]),
    ("pour", "milk", ["coconut", "almond", "whole"]),
    ("pour", "oil", ["olive", "sesame", "peanut"]),
    ("pour", "vinegar", ["cider", "rice", "white"]),
    ("pour", "stock", ["chicken", "vegetable", "beef"]),
    ("pour", "cream", ["sour", "double", "single"]),
    ("pour", "cloves", ["ground"]),
    ("pour", "pepper", ["black", "white", "cayenne"]),
    ("pour", "ginger", ["ground", "fresh"]),
    ("count", "garlic", ["wild", "black"]),
    ("count", "thyme", ["lemon", "wild"]),
    ("count", "celery", []),
    ("count", "basil", ["thai", "sweet"]),
    ("count", "bread", ["white", "rye", "corn"]),
    ("count", "ginger", ["fresh"]),
    ("pack", "tomatoes", ["plum", "cherry", "whole"]),
    ("pack", "beans", ["black", "white", "kidney"]),
    ("pack", "coriander", ["fresh"]),
    ("pack", "spinach", ["baby"]),
    ("pack", "corn", ["sweet", "baby"]),
    ("", "eggs", ["large", "medium"]),
    ("", "onions", ["red", "white", "spring"]),
    ("", "lemons", []),
    ("", "carrots", ["baby"]),
    ("", "apples", ["green", "cooking"]),
]
_HOW = ["chopped", "sliced", "crushed", "peeled", "grated", "diced", "melted", "drained", "minced", "beaten", "toasted"]
_VERY = ["finely", "roughly", "lightly", "thinly", "freshly", "coarsely"]
_ASIDE = [
    ["to", "taste"],
    ["plus", "extra", "for", "serving"],
    ["at", "room", "temperature"],
    ["or", "more", "if", "needed"],
    ["for", "dusting"],
    ["optional"],
]
_AMOUNTS = ["1/2", "1/4", "3/4", "2/3", "half", "a", "two", "three"]
# Syllables of invented names and verbs: new words of a text belong to open classes.
_FIRST = ["bra", "ca", "do", "fen", "gar", "hal", "ko", "lu", "mo", "nar", "pe", "ri", "sal", "tan", "vo", "zu"]
_MIDDLE = ["da", "li", "ma", "no", "ra", "se", "to", "vi"]
_LAST = ["lla", "mi", "nut", "berry", "root", "kin", "s", "tto", "ne", "fish"]
_SHELVES = "ABCDEF"


def ingredients(sentences: int, seed: int = 0) -> Columns:
    """Generate lines of made-up recipes in the columns w (the word), shelf (a random letter) and label (B-, I-, O).

    The parts are AMOUNT, UNIT, NAME, HOW (the preparation) and NOTE. Words are ambiguous as in real recipes: cloves
    are a unit of garlic and a spice, ground beef is a name, and ground almonds are almonds. Half of the names and
    verbs are built from syllables, so that a new text has words that no earlier text had.

    >>> columns = ingredients(100)
    >>> len(columns), columns.names
    (100, ('w', 'shelf', 'label'))
    >>> sorted(columns.distinct("label")[1])[:3]
    ['B-AMOUNT', 'B-HOW', 'B-NAME']
    """
    random = np.random.default_rng(seed)
    made = []
    for _ in range(sentences):
        words: list[tuple[str, str]] = []
        for part, phrase in _line(random):
            for i, word in enumerate(phrase):
                words.append((word, "O" if part == "O" else f"{'B' if i == 0 else 'I'}-{part}"))
        made.append([(word, _SHELVES[random.integers(6)], label) for word, label in words])
    return Columns.from_lists(made, ("w", "shelf", "label"), "ingredients (made up)")


def _line(random: np.random.Generator) -> list[tuple[str, list[str]]]:
    """Return (part, its words) of one line, in order."""

    def pick(of: list[Any]) -> Any:
        return of[int(random.integers(len(of)))]

    def chance(p: float) -> bool:
        return bool(random.random() < p)

    kind, head, before = pick(_FOODS)
    parts: list[tuple[str, list[str]]] = []
    if chance(0.94):
        parts.append(("AMOUNT", _amount(random, pick, chance)))
        if kind and chance(0.85):
            if kind in ("pack", "weigh") and chance(0.15):
                parts.append(("UNIT", [str(random.integers(2, 9) * 50), pick(["g", "ml"]), pick(_UNITS["pack"])]))
            else:
                parts.append(("UNIT", [pick(_UNITS[kind])]))
            if chance(0.35):
                parts.append(("O", ["of"]))

    def stem() -> str:
        return str(pick(_FIRST)) + "".join(pick(_MIDDLE) for _ in range(random.integers(0, 3)))

    def food() -> list[str]:
        return [stem() + pick(_LAST)] if chance(0.5) else [pick(_FOODS)[1]]

    if chance(0.5):
        head = stem() + pick(_LAST)
    name = [*([pick(before)] if before and chance(0.6) else []), head]
    verb = stem() + "ed" if chance(0.5) else pick(_HOW)
    how = [*([stem() + "ly" if chance(0.3) else pick(_VERY)] if chance(0.4) else []), verb]
    if chance(0.25):
        # "2 cups chopped onions": the preparation comes first; "ground" is then not a part of the name.
        first = ["ground"] if head in ("almonds", "pepper") and chance(0.5) else how
        parts += [("HOW", first), ("NAME", name)]
    else:
        parts.append(("NAME", name))
        if chance(0.45):
            parts += [*([("O", [","])] if chance(0.8) else []), ("HOW", how)]
            if chance(0.15):
                parts += [("O", ["and"]), ("HOW", [pick(_HOW)])]
    if chance(0.35):
        # A note may name a food too; only its first words tell it apart.
        note = pick(_ASIDE) if chance(0.5) else [*pick([["for", "the"], ["or"], ["to", "serve", "with"]]), *food()]
        parts += [*([("O", [","])] if chance(0.7) else []), ("NOTE", note)]
    return parts


def _amount(random: np.random.Generator, pick: Any, chance: Any) -> list[str]:
    number = str(random.integers(1, 13))
    if chance(0.2):
        return ["a", "few"] if chance(0.2) else [pick(_AMOUNTS)]
    if chance(0.15):
        return [number, pick(_AMOUNTS[:4])]
    return [number, "to", str(int(number) + 2)] if chance(0.1) else [number]


# --- words of digits ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Words:
    """Sequences of images with their labels: `X` has a matrix (characters, pixels) per word, `y` a vector of digits."""

    X: list[Floats]
    y: list[Ints]

    def __len__(self) -> int:
        return len(self.X)


def digit_words(
    images: Floats, labels: NDArray[Any], words: int, seed: int = 0, noise: float = 0.25, length: int = 6
) -> Words:
    """Generate words of digits from a chain with three successors per digit, 8 : 3 : 1, and a noisy image per digit.

    `images` are rows of pixels from 0 to 1. Words use only these images, so a split of the images is a split of the
    words. `noise` is the standard deviation of the noise added to each pixel.

    >>> made = digit_words(np.eye(10), np.arange(10), words=2, seed=0, noise=0.0)
    >>> [word.tolist() for word in made.y][0] == [int(image.argmax()) for image in made.X[0]]
    True
    """
    random = np.random.default_rng(seed)
    # The chain is the same for every seed, so that training and test words have the same distribution.
    chain = np.random.default_rng(1)
    nexts = np.array([chain.permutation(10)[:3] for _ in range(10)])
    shares = np.array([8.0, 3.0, 1.0]) / 12.0
    places = [np.flatnonzero(labels == digit) for digit in range(10)]
    X, y = [], []
    for _ in range(words):
        word = [int(random.integers(10))]
        for _ in range(int(random.integers(3, length + 1)) - 1):
            word.append(int(nexts[word[-1], random.choice(3, p=shares)]))
        chosen = np.array([places[digit][random.integers(places[digit].size)] for digit in word])
        X.append(images[chosen] + noise * random.standard_normal((len(word), images.shape[1])))
        y.append(np.array(word, dtype=np.int64))
    return Words(X, y)
