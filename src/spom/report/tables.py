"""Parts of the page computed from its contents: numbers as text, tiles, and tables from a confusion matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spom.metrics.phrases import Counts
from spom.report.contents import Contents, Epoch, Matrix, Number, Sentence

# Scores that are fractions: their names in `spom evaluate --json` and on the page.
FRACTIONS = {
    **{"f1": "F1", "uas": "UAS", "las": "LAS", "accuracy": "Accuracy", "precision": "Precision", "recall": "Recall"},
    **{"macro_f1": "Macro F1", "balanced_accuracy": "Balanced accuracy"},
}
# The same for pipelines, whose other measures are combinations of these.
MEASURES = {
    **{"words": "Words", "sentences": "Sentences", "upos": "UPOS", "xpos": "XPOS", "feats": "Features"},
    **{"lemmas": "Lemmas", "uas": "UAS", "las": "LAS"},
}
_EPOCH_COLUMNS = {
    **{"stage": "Stage", "epoch": "Epoch", "objective": "Objective", "loss": "Loss", "dev": "Dev"},
    **{"blocks_kept": "Blocks kept", "nonzeros": "Not zero", "per_second": "Per second", "seconds": "Seconds"},
}


@dataclass(frozen=True)
class Tile:
    """One number in large type."""

    name: str
    value: str
    more: str = ""


@dataclass(frozen=True)
class Table:
    """Column names and rows of text."""

    names: list[str]
    rows: list[list[str]]


@dataclass(frozen=True)
class LabelScores(Counts):
    """The counts of a label, with its precision, recall and F1."""

    label: str


@dataclass(frozen=True)
class Confused:
    """A gold label predicted as another one, and the share of the gold label's examples with this error."""

    gold: str
    predicted: str
    count: int
    share: float


# --- numbers ------------------------------------------------------------------------------------------


def number(value: Number) -> str:
    """Format a number for people: whole numbers with thousands separators, others with five significant digits.

    >>> number(1234567), number(0.123456), number(None)
    ('1,234,567', '0.12346', '')
    """
    if value is None:
        return ""
    return f"{int(value):,}" if float(value).is_integer() else f"{value:,.5g}"


def file_size(count: float) -> str:
    """Format a number of bytes for people.

    >>> file_size(1_250_000)
    '1.2 MB'
    """
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def duration(seconds: float) -> str:
    """Format seconds for people.

    >>> duration(3.217), duration(75), duration(8000)
    ('3.2 s', '1 min 15 s', '2 h 13 min')
    """
    if seconds < 60:
        return f"{seconds:.2g} s" if seconds < 1 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


# --- tables -------------------------------------------------------------------------------------------


def tiles(page: Contents) -> list[Tile]:
    """Return the numbers at the top: scores first, then the size of the model and the time of the run."""
    scores, names = page.scores, MEASURES if page.task == "pipeline" else FRACTIONS
    found = [Tile(name, f"{100 * scores[key]:.2f} %") for key, name in names.items() if key in scores]
    used = {*names, "blocks_kept", "nonzeros", "bytes", "seconds", "per_second", "tokens", "sentences", "rows"}
    if page.task == "pipeline":
        used |= {"alltags", "clas", "mlas", "blex"}
    found += [Tile(key.replace("_", " "), number(scores[key])) for key in scores if key not in used]
    if page.kept_blocks is not None:
        of = f"of {page.total_blocks:,}" if page.total_blocks else ""
        found.append(Tile(f"{page.block.capitalize()}s kept", number(page.kept_blocks), of))
    if "nonzeros" in scores:
        found.append(Tile("Weights not zero", number(scores["nonzeros"])))
    if "bytes" in scores:
        found.append(Tile("Model file", file_size(scores["bytes"])))
    if "seconds" in scores:
        found.append(Tile("Time", duration(scores["seconds"])))
    if "per_second" in scores:
        unit = "Tokens" if page.task in ("tagger", "parser") else "Rows"
        found.append(Tile(f"{unit} a second", number(round(scores["per_second"]))))
    return found


def tile_columns(count: int) -> int:
    """Return the number of tiles per row on a wide screen: at most six, in rows of equal length if possible.

    >>> [tile_columns(n) for n in (1, 5, 6, 7, 8, 9, 10, 11, 12)]
    [1, 5, 6, 4, 4, 3, 5, 6, 6]
    """
    if count <= 6:
        return max(1, count)
    even = [c for c in (6, 5, 4, 3) if count % c == 0]
    return even[0] if even else min(6, -(-count // 2))


def epoch_table(epochs: Sequence[Epoch]) -> Table:
    """Return the table of epochs, with the columns that have a value in some epoch."""
    names = [c for c in _EPOCH_COLUMNS if any(getattr(e, c) not in (None, "") for e in epochs)]
    rows = [[e.stage if c == "stage" else number(getattr(e, c)) for c in names] for e in epochs]
    return Table([_EPOCH_COLUMNS[c] for c in names], rows)


def filled(matrix: Matrix) -> list[list[float]]:
    """Return the values, with zeros for impossible pairs."""
    return [[v or 0.0 for v in row] for row in matrix.values]


def by_label(matrix: Matrix) -> list[LabelScores]:
    """Compute precision, recall and F1 of each label, the most frequent label first."""
    found = []
    columns = {label: j for j, label in enumerate(matrix.columns)}
    values = filled(matrix)
    for i, label in enumerate(matrix.rows):
        j = columns.get(label)
        hits = values[i][j] if j is not None else 0.0
        guessed = sum(row[j] for row in values) if j is not None else 0.0
        found.append(LabelScores(int(sum(values[i])), int(guessed), int(hits), label))
    return sorted(found, key=lambda one: -one.gold)


def confusions(matrix: Matrix, most: int = 15) -> list[Confused]:
    """Return the pairs of labels that are confused most often."""
    found = [
        Confused(gold, predicted, int(count), count / sum(row))
        for gold, row in zip(matrix.rows, filled(matrix), strict=True)
        for predicted, count in zip(matrix.columns, row, strict=True)
        if predicted != gold and count
    ]
    return sorted(found, key=lambda one: (-one.count, one.gold, one.predicted))[:most]


def smaller(matrix: Matrix, most: int) -> Matrix:
    """Reduce a matrix to the `most` labels with the largest rows (by absolute sum), in their order."""
    if len(matrix.rows) <= most:
        return matrix
    sums = [sum(map(abs, row)) for row in filled(matrix)]
    rows = sorted(sorted(range(len(sums)), key=lambda i: -sums[i])[:most])
    kept = {matrix.rows[i] for i in rows}
    columns = [j for j, label in enumerate(matrix.columns) if label in kept]
    values = [[matrix.values[i][j] for j in columns] for i in rows]
    return Matrix([matrix.rows[i] for i in rows], [matrix.columns[j] for j in columns], values)


# --- sentences ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tree:
    """A sentence with its caption, a line above the drawing, and its label, a text for screen readers."""

    sentence: Sentence
    caption: str
    label: str


def tree(sentence: Sentence) -> Tree:
    """Count the errors, and describe the tree in words."""
    total = len(sentence.words)
    told = [_told(sentence, i) for i in range(total)]
    if not sentence.heads:
        return Tree(sentence, f"{total} words", f"Predicted tree. {' '.join(told)}")
    pairs = zip(sentence.heads, sentence.predicted_heads, strict=True)
    wrong = sum(a != b for a, b in pairs)
    caption = f"{total} words, {_count(wrong, 'wrong head')}"
    if sentence.relations and sentence.predicted_relations:
        # As in the shared task's evaluation, subtypes do not count: nsubj:pass is nsubj.
        labels = zip(sentence.relations, sentence.predicted_relations, strict=True)
        caption += f", {_count(sum(a.split(':')[0] != b.split(':')[0] for a, b in labels), 'wrong relation')}"
    return Tree(sentence, caption, f"Predicted tree, {caption}. {' '.join(told)}")


def _count(n: int, what: str) -> str:
    return f"{n or 'no'} {what}{'' if n == 1 else 's'}"


def _told(sentence: Sentence, i: int) -> str:
    words = ("ROOT", *sentence.words)
    text = f"{sentence.words[i]} ← {words[sentence.predicted_heads[i]]}"
    if sentence.predicted_relations:
        text += f" ({sentence.predicted_relations[i]})"
    if sentence.heads and sentence.heads[i] != sentence.predicted_heads[i]:
        text += f", gold {words[sentence.heads[i]]}"
    return text + "."
