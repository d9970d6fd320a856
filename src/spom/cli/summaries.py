"""The output of `spom inspect`: plain values are gathered first, so that JSON, CSV and text show the same."""

from __future__ import annotations

import csv
import sys
import textwrap
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from spom.cli.training import size
from spom.core.container import Header
from spom.core.registry import suggestion
from spom.errors import Unsupported

# The maximum number of blocks that are listed; a linear model may have millions.
MOST_BLOCKS = 1000
# Numbers that fit on a screen of 40 lines and 100 columns.
SCREEN_BLOCKS = 12
SCREEN_LABELS = 16
SCREEN_WIDTH = 100
_BAR = 30


def from_header(header: Header) -> dict[str, Any]:
    """Return the contents of the header as plain values."""
    arrays = {
        name: {"dtype": str(d), "shape": list(s), "bytes": b - a} for name, (d, s, a, b) in header.entries.items()
    }
    params = {name: _shown(value) for name, value in header.model["params"].items()}
    return {
        "path": header.path,
        "estimator": header.estimator,
        "format": header.format,
        "spom": header.spom,
        "bytes": header.size,
        "parameters": params,
        "training": header.model["training"],
        "arrays": arrays,
    }


def _shown(value: Any) -> Any:
    """Shorten a parameter of the header: an operator becomes its name with its parameters."""
    if isinstance(value, dict) and "kind" in value:
        inner = ", ".join(f"{k}={_shown(v)}" for k, v in value["params"].items() if v is not None)
        return f"{value['name']}({inner})"
    if isinstance(value, dict) and "array" in value:
        return "<array>"
    if isinstance(value, dict) and "float" in value:
        return value["float"]
    if isinstance(value, dict):
        return f"<{next(iter(value), 'empty')}>"
    return value


def from_model(model: Any, top: int) -> dict[str, Any]:
    """Return a summary of the model's weights as plain values."""
    kinds = {"SequenceTagger": _tagger, "DependencyParser": _parser, "MKLClassifier": _kernels}
    kinds["Pipeline"] = _pipeline
    return kinds.get(type(model).__name__, _linear)(model, top)


def _kernels(model: Any, top: int) -> dict[str, Any]:
    labels = [str(label) for label in model.classes_.tolist()]
    return {**_named_blocks(model), "nonzeros": int(model.n_support_), "labels": labels}


def _named_blocks(model: Any) -> dict[str, Any]:
    """Return the blocks of a structured model, largest weight first."""
    weights = model.block_weights_
    order = np.argsort(-weights, kind="stable").tolist()
    return {
        "blocks": [{"name": str(model.blocks_[i]), "weight": float(weights[i])} for i in order],
        "blocks_total": int(weights.size),
        "blocks_kept": int(np.count_nonzero(weights)),
    }


def _tagger(model: Any, top: int) -> dict[str, Any]:
    labels = [str(label) for label in model.classes_.tolist()]
    features = {label: _strongest(model, c, top) for c, label in enumerate(labels)}
    chain = model.chain_[: len(labels)]
    order = np.argsort(-chain, axis=None, kind="stable").tolist()
    ends = order if len(order) <= 2 * top else [*order[:top], *order[-top:]]
    pairs = [divmod(i, len(labels)) for i in ends]
    found = {
        **_named_blocks(model),
        "nonzeros": model.nonzeros_,
        "weights": model.weights_.shape[0] * len(labels),
        "features": model.weights_.shape[0],
        "labels": labels,
        "top": features,
        "transitions": [[labels[a], labels[b], float(chain[a, b])] for a, b in pairs if chain[a, b]],
    }
    if model.pruning_ is not None:
        found["pruning"] = str(model.pruning_)
    return found


def _strongest(model: Any, c: int, top: int) -> list[list[Any]]:
    """Return the features with the largest weights for a label, then half as many with the most negative ones."""
    weights = model.weights_[:, c]
    weights = weights.toarray().reshape(-1) if sparse.issparse(weights) else weights
    order = np.argsort(-weights, kind="stable")
    most = [i for i in order[:top].tolist() if weights[i] > 0]
    least = [i for i in order[::-1][: top // 2].tolist() if weights[i] < 0]
    return [[model._features.name(i), float(weights[i])] for i in [*most, *reversed(least)]]


def _parser(model: Any, top: int) -> dict[str, Any]:
    weights = model.arcs_.weights
    found = {**_named_blocks(model), "nonzeros": int(np.count_nonzero(weights)), "weights": int(weights.size)}
    found["relations"] = list(model.relations_)
    found["second_stage"], found["order"] = model.second_ is not None and model.order_ == 1, model.order_
    return found


def _pipeline(model: Any, top: int) -> dict[str, Any]:
    """Return the stages with their sizes, and the blocks that the parser kept."""
    tags, lemmas, split = model.tagger_, model.lemmatizer_, model.splitter_
    found: dict[str, Any] = {} if model.parser_ is None else _parser(model.parser_, top)
    stages = {
        "characters": f"{model.segmenter_.places.size:,} features of four labels",
        "multiword": "none"
        if not split
        else f"{len(split.endings.rules):,} rules by endings, {len(split.seen):,} other tokens",
        "tags": f"{len(tags.names):,} labels, {tags.weights.values.size:,} weights of "
        f"{len(tags.templates.blocks)} templates",
        "lemmas": "none"
        if lemmas is None
        else f"{len(lemmas.scripts):,} scripts, {len(lemmas.seen):,} words, {lemmas.weights.values.size:,} weights of "
        f"{len(lemmas.templates.blocks)} templates",
        "trees": "none" if model.parser_ is None else f"{found['nonzeros']:,} weights of arcs",
    }
    kept = {"tags": list(tags.templates.blocks.names)}
    kept |= {} if lemmas is None else {"lemmas": list(lemmas.templates.blocks.names)}
    return {**found, "stages": stages, "templates": kept}


def _linear(model: Any, top: int) -> dict[str, Any]:
    from spom.cli.train_vectors import block_names

    weights = model.block_weights_
    order = np.argsort(-weights, kind="stable")[:MOST_BLOCKS]
    kept = order[weights[order] > 0].tolist()
    off = np.flatnonzero(weights == 0).tolist() if weights.size <= MOST_BLOCKS else []
    names = block_names(model, [*kept, *off])
    blocks = [{"name": name, "weight": float(weights[m])} for name, m in zip(names, [*kept, *off], strict=True)]
    coef = model.coef_ if sparse.issparse(model.coef_) else np.atleast_2d(model.coef_)
    return {
        "blocks": blocks,
        "blocks_total": int(weights.size),
        "blocks_kept": int(np.count_nonzero(weights)),
        "nonzeros": int(np.count_nonzero(coef.data if sparse.issparse(coef) else coef)),
        "weights": int(np.prod(coef.shape)),
        "intercept": np.atleast_1d(model.intercept_).tolist(),
        "top": _top(model, coef, top),
    }


def _top(model: Any, coef: Any, top: int) -> dict[str, list[list[Any]]]:
    """Return the features with the largest absolute weights for each label (for two classes, only for the second)."""
    from spom.cli.vectors import as_text
    from spom.estimators.explanation import dense_row

    classes = getattr(model, "classes_", None)
    labels = ["target"] if classes is None else as_text(classes if coef.shape[0] > 1 else classes[1:])
    names = getattr(model, "feature_names_in_", None)
    found = {}
    for k, label in enumerate(labels):
        row = dense_row(coef, k)
        order = np.argsort(-np.abs(row), kind="stable")[:top]
        rows = [[str(names[i]) if names is not None else str(i + 1), float(row[i])] for i in order.tolist() if row[i]]
        found[label] = rows
    return found


# --- output -----------------------------------------------------------------------------------------


def print_csv(found: dict[str, Any]) -> None:
    """Print the blocks as CSV, one per line."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["block", "weight"])
    for block in found.get("blocks", []):
        writer.writerow([block["name"], block["weight"]])


@dataclass(frozen=True)
class View:
    """The part of a model to show: all features of one label, everything, or as much as fits on a screen."""

    label: str | None = None
    every: bool = False
    verified: bool = False
    colour: bool = False
    width: int = SCREEN_WIDTH


def print_text(found: dict[str, Any], view: View) -> None:
    """Print the summary, through a pager if standard output is a terminal that is too short."""
    import shutil

    text = "\n".join(_lines(found, view))
    if sys.stdout.isatty() and text.count("\n") >= shutil.get_terminal_size().lines:
        from click import echo_via_pager

        echo_via_pager(text + "\n", color=view.colour)
    else:
        print(text)


def _lines(found: dict[str, Any], view: View) -> list[str]:
    lines = _about(found, view) + [f"  {name:12} {text}" for name, text in found.get("stages", {}).items()]
    if "blocks" not in found:
        return lines + _arrays(found["arrays"], view)
    if view.label is None:
        lines += _blocks(found, view)
    lines += _top_features(found, view)
    if found.get("transitions") and (view.every or view.label is not None):
        rows = [row for row in found["transitions"] if view.label is None or view.label in row[:2]]
        lines += ["", _bold("transitions, from the most to the least likely", view)]
        lines += [f"  {weight:+10.4f}  {a} -> {b}" for a, b, weight in rows]
    return lines


def _arrays(arrays: dict[str, Any], view: View) -> list[str]:
    """Format a line for each array; of many arrays, one for all whose names begin alike."""
    if view.every or len(arrays) <= SCREEN_BLOCKS:
        rows = [(name, a["dtype"], "x".join(map(str, a["shape"])), size(a["bytes"])) for name, a in arrays.items()]
        return [f"  {name:30} {kind:8} {shape:>16}  {bytes_}" for name, kind, shape, bytes_ in rows]
    parts: dict[str, list[int]] = {}
    for name, a in arrays.items():
        parts.setdefault(name.partition(".")[0], []).append(a["bytes"])
    lines = ["", _bold("size by stage (--all lists every array)", view)]
    return lines + [f"  {name:12} {size(sum(own)):>8} in {len(own)} arrays" for name, own in parts.items()]


def _about(found: dict[str, Any], view: View) -> list[str]:
    checked = ", every array checked" if view.verified else ""
    first = f"{found['path']}: {found['estimator']}, {size(found['bytes'])}, format {found['format']}{checked}"
    shown = {k: v for k, v in found["parameters"].items() if v is not None}
    lines = [_bold(first, view), *_wrapped(", ".join(f"{k}={v}" for k, v in shown.items()), view)]
    facts = {k: f"{v:.6g}" if isinstance(v, float) else v for k, v in found["training"].items()}
    if "settings" in facts:
        lines += _wrapped(f"learnt with: {facts.pop('settings')}", view)
    told = [f"{k} {v}" for k, v in facts.items() if v is not None and not isinstance(v, (dict, list))]
    return [*lines, *_wrapped(f"trained: {', '.join(told)}", view)] if told else lines


def _wrapped(text: str, view: View) -> list[str]:
    """Wrap a paragraph to the screen's width, indented."""
    return textwrap.wrap(text, view.width, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)


def _blocks(found: dict[str, Any], view: View) -> list[str]:
    kept = [b for b in found["blocks"] if b["weight"] > 0]
    what = "support vectors" if found["estimator"] == "MKLClassifier" else "weights"
    head = f"blocks: {found['blocks_kept']:,} of {found['blocks_total']:,} kept, {found['nonzeros']:,} {what}"
    most = len(kept) if view.every else SCREEN_BLOCKS
    lines = ["", _bold(head, view), *bars(kept[:most])]
    if found["blocks_kept"] > most:
        lines.append(f"  ... and {found['blocks_kept'] - most:,} more; --all shows them")
    off = [b["name"] for b in found["blocks"] if b["weight"] == 0]
    if off:
        lines += _wrapped(f"switched off: {', '.join(off[:30])}{', ...' if len(off) > 30 else ''}", view)
    if found.get("relations"):
        lines += ["", *_wrapped(f"relations: {', '.join(found['relations'])}", view)]
    return lines


def _top_features(found: dict[str, Any], view: View) -> list[str]:
    """Format the features of each label: one line per label, or one per feature with --label and --all."""
    top = found.get("top", {})
    if view.label is not None and view.label not in top:
        raise Unsupported(f"unknown label {view.label!r}; {suggestion(view.label, list(top))}")
    if not top:
        return []
    if view.every or view.label is not None or len(top) == 1:
        lines = []
        for label, rows in top.items():
            if view.label in (None, label):
                lines += ["", _bold(label, view), *(f"  {weight:+10.4f}  {name}" for name, weight in rows)]
        return lines
    width = min(20, max(len(label) for label in top))
    lines = ["", _bold("top features of each label (--label NAME shows more of one, --all everything)", view)]
    for label, rows in list(top.items())[:SCREEN_LABELS]:
        line = f"  {label[:width]:{width}}"
        for name, weight in rows[:4]:
            more = f"  {name} {weight:+.2f}"
            if len(line) + len(more) > view.width:
                break
            line += more
        lines.append(line)
    if len(top) > SCREEN_LABELS:
        lines.append(f"  ... and {len(top) - SCREEN_LABELS:,} more labels")
    return lines


def _bold(text: str, view: View) -> str:
    return f"\x1b[1m{text}\x1b[0m" if view.colour else text


def bars(blocks: list[dict[str, Any]]) -> list[str]:
    """Format a bar for each block, with a length proportional to its weight."""
    if not blocks:
        return []
    width = min(40, max(len(block["name"]) for block in blocks))
    most = max(block["weight"] for block in blocks)
    lines = []
    for block in blocks:
        bar = "\u2588" * max(1, round(_BAR * block["weight"] / most))
        lines.append(f"  {block['name'][:width]:{width}}  {block['weight']:7.4f}  {bar}")
    return lines
