"""Checks of what estimators are given: operators by name, data, labels and weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, column_or_1d, validate_data

from spom.core import registry
from spom.core.arrays import Floats, Ints, check_squares, checked_csr
from spom.errors import DataError, Unsupported

# Up to this size all whole numbers are exact as floats.
EXACT = 2.0**53
# The multiclass form of each two-class loss.
MULTICLASS = {
    "Hinge": "multiclass-hinge",
    "Logistic": "multiclass-logistic",
    "PowerHinge": "multiclass-power-hinge",
}


# --- operators --------------------------------------------------------------------------------------


def operator(kind: str, given: Any, default: Any = None) -> Any:
    """Return the operator that a parameter means: itself, one made from its registered name, or the default for None.

    A penalty given by name takes the default's strength, if it has one.

    >>> from spom.penalties import L1
    >>> operator("penalty", "squared-l2", default=L1(1e-4))
    SquaredL2(strength=0.0001)
    """
    if given is None:
        return default
    if not isinstance(given, str):
        if isinstance(given, type) or not hasattr(given, "get_params"):
            names = ", ".join(entry.name for entry in registry.entries(kind))
            raise ValueError(f"{kind} must be an instance or one of the names {names}; it is {given!r}")
        return given
    found = registry.make(kind, given)
    strength = getattr(default, "strength", None)
    if kind == "penalty" and strength is not None and "strength" in found.get_params():
        found.set_params(strength=strength)
    return found


def loss_for(given: Any, classes: int, default: str) -> Any:
    """Return the loss for this number of classes: a two-class loss becomes its multiclass form for k > 2."""
    loss = operator("loss", default if given is None else given)
    if loss.target == "real":
        raise Unsupported(f"{loss!r} is a loss for regression; classifiers support hinge, power-hinge and logistic")
    if classes <= 2 or loss.target == "class":
        return loss
    found = registry.make("loss", MULTICLASS[type(loss).__name__])
    if hasattr(loss, "q"):
        found.set_params(q=loss.q, classes=classes)
    return found


def regression_loss(given: Any, default: str) -> Any:
    """Return the loss of a regressor, or raise an error that names the valid ones."""
    loss = operator("loss", default if given is None else given)
    if loss.target != "real":
        raise Unsupported(f"{loss!r} is a loss for classification; regressors support squared and power-absolute")
    return loss


# --- data -------------------------------------------------------------------------------------------


# The dtypes that kernels take: single precision is kept.
FLOATS = (np.float64, np.float32)


def check_data(estimator: BaseEstimator, X: Any, *, reset: bool, dtype: Any = np.float64) -> Any:
    """Return X as dense `dtype` (or one of several) in C order or as CSR, without a copy if it is that already.

    Arrays, lists, pandas and polars frames and all scipy sparse formats are accepted; feature names are stored
    (`reset`) or compared with those seen in `fit`.
    """
    if sparse.issparse(X) and X.ndim == 2:
        X = checked_csr(X)
    X = validate_data(estimator, X, reset=reset, accept_sparse="csr", dtype=dtype, order="C")
    if sparse.issparse(X) and not X.has_sorted_indices:
        X = X.sorted_indices()
    return check_squares(X) if reset else X


def check_weights(sample_weight: ArrayLike | None, X: Any) -> Floats | None:
    """Return one finite weight >= 0 per example, or None if all are one."""
    if sample_weight is None:
        return None
    weights: Floats = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if not weights.any():
        raise ValueError("sample_weight must not be all zero: no example would count")
    return weights


def check_same_length(X: Any, y: Any) -> None:
    """Raise an error unless X and y have one row per example each."""
    if X.shape[0] != y.shape[0]:
        raise ValueError(f"X has {X.shape[0]} rows and y has {y.shape[0]}: there must be one target per row")


def check_examples(
    estimator: BaseEstimator, block: tuple[Any, Any, Any], target: Any, *, reset: bool
) -> tuple[Any, Any, Floats | None]:
    """Return checked (X, y, sample_weight); `target` is `check_labels` or `check_targets`."""
    X, y = check_data(estimator, block[0], reset=reset), target(block[1])
    check_same_length(X, y)
    return X, y, check_weights(block[2], X)


def check_labels(y: Any) -> NDArray[Any]:
    """Return class labels as a vector: strings, numbers or booleans, none of them missing."""
    if y is None:
        raise ValueError("this classifier requires y to be passed, but the target y is None")
    labels = column_or_1d(y, warn=True)
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError("Input y contains NaN or infinity: every label must be known")
    if labels.dtype.kind == "f" and labels.size and np.abs(labels).max() > EXACT:
        at = int(np.argmax(np.abs(labels)))
        what = f"entry {at} of y is the label {labels[at]:g}: numbers over 2**53 are not exact"
        raise DataError(f"{what}; number the classes from 1, or give labels as text")
    check_classification_targets(labels)
    return np.asarray(labels)


def check_targets(y: Any) -> Floats:
    """Return real targets as a vector of finite floats."""
    if y is None:
        raise ValueError("this regressor requires y to be passed, but the target y is None")
    raw = column_or_1d(y, warn=True)
    try:
        targets = np.ascontiguousarray(raw, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"y must be real numbers: {error}") from None
    if not np.isfinite(targets).all():
        at = int(np.flatnonzero(~np.isfinite(targets))[0])
        raise ValueError(f"Input y contains NaN or infinity: entry {at} is {targets[at]}")
    return targets


def check_classes(classes: ArrayLike) -> NDArray[Any]:
    """Return the sorted distinct classes; raise an error if there are fewer than two."""
    found = np.unique(np.asarray(classes))
    if found.size < 2:
        shown = ", ".join(map(repr, found.tolist()))
        raise ValueError(f"a classifier needs at least two classes; y has only one class: {shown}")
    return found


def encode(labels: NDArray[Any], classes: NDArray[Any]) -> Ints:
    """Return the index of each label among the sorted classes; raise an error that names an unknown label."""
    at = np.searchsorted(classes, labels)
    at = np.minimum(at, classes.size - 1)
    unknown = np.flatnonzero(classes[at] != labels)
    if unknown.size:
        shown = labels[unknown[0]]
        raise ValueError(
            f"y has the label {shown!r} at entry {unknown[0]}, which is not among the classes "
            f"{classes.tolist()!r}: pass all classes at the first call with classes="
        )
    return at.astype(np.int64)


def class_weights(class_weight: Any, classes: NDArray[Any], labels: NDArray[Any]) -> Floats | None:
    """Return one weight per class, or None if all are one; "balanced" counts these labels."""
    if class_weight is None:
        return None
    weights = np.asarray(compute_class_weight(class_weight, classes=classes, y=labels), dtype=np.float64)
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError(f"class_weight must be finite and >= 0; it gives {weights.tolist()}")
    return weights


def combined_weights(sample: Floats | None, by_class: Floats | None, index: Ints) -> Floats | None:
    """Return the weight of each example: its own times that of its class."""
    if by_class is None:
        return sample
    own = by_class[index]
    weights = own if sample is None else sample * own
    if not weights.any():
        raise ValueError("sample_weight times class_weight is zero for every example: none would count")
    return weights


def merged(X: Any, y: Any, weight: Floats | None) -> tuple[Any, Any, Floats | None]:
    """Return the distinct examples sorted by target, then by columns, with summed weights and without zero weights.

    A weight is then equivalent to a repetition, and neither the order of the rows nor the units of the columns
    matter.

    >>> X, y, weight = merged(np.array([[2.0], [1.0], [2.0], [5.0]]), np.ones(4), np.array([1.0, 1.0, 2.0, 0.0]))
    >>> X.ravel(), weight
    (array([1., 2.]), array([1., 3.]))
    """
    # In this order of bytes equal targets are together, which is all that matters.
    targets = _ordered_bits(np.asarray(y, dtype=np.float64)).astype("<u8").tobytes()
    keys = [targets[8 * i : 8 * i + 8] + row for i, row in enumerate(_row_bytes(sparse.csr_matrix(X)))]
    w = np.ones(len(keys)) if weight is None else np.asarray(weight, dtype=np.float64)
    order = np.array(sorted(np.flatnonzero(w > 0.0).tolist(), key=keys.__getitem__), dtype=np.int64)
    found = [keys[i] for i in order.tolist()]
    new = np.array([k == 0 or found[k - 1] != key for k, key in enumerate(found)], dtype=np.bool_)
    rows = order[new]
    total: Any = np.bincount(np.cumsum(new) - 1, weights=w[order], minlength=rows.size)
    return X[rows], y[rows], total


def _row_bytes(X: Any) -> list[bytes]:
    """Return each row as bytes, the same for dense and sparse rows, which sort as the rows do, column by column.

    An entry is its sign, its column and its value. A positive entry sorts its row after all rows with a zero there,
    a negative one before them. Earlier columns take precedence, so columns of positive entries are in falling order.
    """
    # Explicit zeros are not entries; other entries keep their order.
    rows, where = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)), X.indices
    kept = X.data != 0.0
    rows, where, values = rows[kept], where[kept], X.data[kept]
    # Each row ends with an extra entry.
    ends = np.cumsum(np.bincount(rows, minlength=X.shape[0]) + 1)
    entries = np.empty(values.size + X.shape[0], dtype=[("sign", "u1"), ("column", ">u8"), ("value", ">u8")])
    entries[ends - 1] = (1, 0, 0)
    at, up = np.arange(values.size) + rows, values > 0.0
    entries["sign"][at] = np.where(up, 2, 0)
    entries["column"][at] = np.where(up, X.shape[1] - where, where)
    entries["value"][at] = _ordered_bits(values)
    every, size = entries.tobytes(), entries.itemsize
    return [every[size * low : size * high] for low, high in zip([0, *ends[:-1]], ends, strict=True)]


def _ordered_bits(values: Floats) -> Any:
    """Return eight bytes per number, which sort as the numbers do."""
    bits = np.ascontiguousarray(values + 0.0, dtype=np.float64).view(np.uint64)
    negative = bits >> np.uint64(63) == 1
    return np.where(negative, ~bits, bits | np.uint64(1 << 63)).astype(">u8")
