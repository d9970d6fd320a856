"""OnlineClassifier and OnlineRegressor: linear models learnt one example after another."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from spom.core.arrays import Floats, check_room
from spom.core.registry import keep, register
from spom.estimators.checking import (
    check_classes,
    check_examples,
    check_labels,
    check_targets,
    class_weights,
    combined_weights,
    encode,
    loss_for,
    regression_loss,
)
from spom.estimators.linear.base import LinearClassifier, LinearRegressor
from spom.estimators.linear.choosing import is_auto
from spom.estimators.linear.running import Online
from spom.estimators.linear.stream import Blocks, is_stream
from spom.estimators.training import all_or_nothing

Block = tuple[Any, Any, Floats | None]


@register("estimator", "online-classifier", examples=lambda: [OnlineClassifier()], cost="O(non-zeros) per row")
class OnlineClassifier(Online, LinearClassifier):
    r"""min over w, b of Omega(w) + (1/N) sum_i phi(y_i, <w, x_i> + b), online, for two or more classes.

    Parameters
    ----------
    loss : `"auto"`, `"logistic"`, `"hinge"`, `"power-hinge"`, or a loss object. With more than two classes it takes
        its multiclass form; `coef_` then has one row per class, and a penalty on rows ties a feature's weights for all
        classes, as in `GroupLasso(s, groups="rows")`. `"auto"` is logistic for two classes, or the squared hinge if
        data are sparse with more features than rows and one class has less than a third of them; for more classes,
        held-out rows choose between the logistic loss and the squared hinge of each class against the rest.
        Probabilities are available in either case.
    penalty : `"auto"`: a `SquaredL2` with a strength that is chosen on held-out rows (15 %); the registered name of a
        penalty, whose strength is chosen in the same way; an object of `spom.penalties`, used as it is; or None: no
        penalty. The intercept is never penalised. A stream has no rows to hold out: `"auto"` is no penalty there.
    scale : whether to learn as if dense columns were standardised. `coef_` is in the scale of X in any case; the
        penalty acts on `coef_ * scale_`. Columns of sparse data are not centred, and are divided only if their entries
        are more than 10 times larger or smaller than those of the median column. `"auto"` scales if the strength is
        chosen, so a penalty object defines exactly the stated problem. Up to a thousand dense rows with classes,
        whose columns have about the same range, may get one scale for all columns. Columns of sparse data with more
        features than rows and two frequent classes may be divided by the root of their root mean square. Streams are
        not scaled.
    mirror : a mirror map of `spom.mirror`, or None: Euclidean.
    step, update, projection, output, shuffle : see `spom.solvers.OnlineProximal`. `step="auto"` needs no number.
    epochs : passes over the data (over a stream that can be read again; one that cannot is read once). `"auto"` is 20
        for more than a thousand dense rows of more than two classes, and 10 otherwise.
    batch_size : examples per round, None for all of them.
    fit_intercept, class_weight, warm_start, random_state, n_jobs : as in scikit-learn; n_jobs is the number of threads
        for `step="auto"` with penalties of single weights and one score; anything else uses one thread.
    early_stopping : hold out `validation_fraction` of the data, stop when their loss has not fallen by `tol` for
        `n_iter_no_change` epochs, and keep the weights of the best epoch.
    tol : without early stopping, stop when the objective has fallen by less than this (times its size, if that
        is over one) in `n_iter_no_change` epochs in a row; None runs all `epochs`, and computes no objective.
    verbose : 1 shows a progress line on a terminal, for runs of more than two seconds.
    callbacks : objects that are called after each epoch, and may end the run: see `spom.core.callbacks`.

    With up to a thousand rows in memory, equal rows are merged and their order does not matter (unless
    `shuffle=False`): a weight of two gives the same result as repeating the row, to the bit.

    Attributes
    ----------
    coef_, intercept_, classes_, n_features_in_, feature_names_in_ : as in scikit-learn; coef_ has exact zeros. With an
        l1 penalty, sparse rows and more than 2^24 weights (features times classes) coef_ is a CSR matrix, as after
        `sparsify`, and only non-zero weights take memory; `densify` turns it into an array.
    penalty_, loss_, scale_ : the chosen or given values; scale_ is None if nothing was scaled.
    blocks_, block_weights_, selected_ : the penalty's blocks, their shares of the norm, and the non-zero blocks.
    history_ : loss, step, non-zeros and time of each epoch. converged_ : whether a stopping rule ended the run.

    Examples
    --------
    >>> import numpy as np
    >>> from spom import OnlineClassifier
    >>> from spom.penalties import L1
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((400, 50))
    >>> y = np.where(X[:, 3] - X[:, 7] > 0, "up", "down")
    >>> model = OnlineClassifier(penalty=L1(0.05)).fit(X, y)
    >>> model.selected_
    array([3, 7])
    >>> model.score(X, y) > 0.98
    True
    """

    def __init__(
        self,
        loss: Any = "auto",
        penalty: Any = "auto",
        mirror: Any = None,
        step: Any = "auto",
        epochs: int | str = "auto",
        fit_intercept: bool = True,
        *,
        update: str = "auto",
        projection: Any = None,
        output: str = "last",
        scale: Any = "auto",
        batch_size: int | None = 1,
        shuffle: bool = True,
        class_weight: Any = None,
        warm_start: bool = False,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 3,
        tol: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 1,
        callbacks: Any = None,
    ) -> None:
        keep(self, locals())

    # --- learning ----------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        *,
        dev: Any = None,
        checkpoint: str | Path | None = None,
        checkpoint_every: int | float | str = "60s",
        resume: bool = False,
    ) -> Self:
        """Learn from data in memory, or, without y, from a stream.

        A stream is an iterable of (X, y) or (X, y, sample_weight) blocks, or the path of an svmlight file, plain or
        compressed, of any length. `classes` announces the labels; without it they are those of y, of the file,
        or of the stream's first block.

        `dev` is a pair (X, y): the epoch with the best score on it is kept, and with `early_stopping` the run ends
        after `n_iter_no_change` epochs without an improvement. `checkpoint` is a file for the state of the run, written
        every N epochs, or seconds ("60s"), or only when the run is stopped ("stop"). With `resume` the run
        continues from there, to the same bits.
        """
        watch = {"dev": dev, "checkpoint": checkpoint, "checkpoint_every": checkpoint_every, "resume": resume}
        with all_or_nothing(self):
            if is_stream(X, y):
                return self._fit_stream(Blocks(X, self._passes()), classes, watch)
            X, labels, weight = check_examples(self, (X, y, sample_weight), check_labels, reset=True)
            counted = labels if weight is None else labels[weight > 0]
            self._start(check_classes(counted) if classes is None else check_classes(classes))
            form = self.penalty_.elastic()
            # An l1 penalty on sparse data stores only the non-zero weights.
            if self._outputs() is not None and not (sparse.issparse(X) and form is not None and form.l1 > 0.0):
                many = self.classes_.size
                check_room(X.shape[1], many, 2, f"the weights of {many:,} classes and {X.shape[1]:,} features")
            by_class = class_weights(self.class_weight, self.classes_, labels)
            target, weight = self._encoded(labels, weight, by_class)
            self._fit_memory((X, target, weight), self.loss_, self._outputs(), watch)
        return self

    def partial_fit(
        self, X: Any, y: Any, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn from one more block; the first call announces all `classes`, later ones may omit them."""
        with all_or_nothing(self):
            new = not self._begun()
            self._start(self._announced(classes, new), goes_on=not new)
            block = self._block((X, y, sample_weight), reset=new)
            self._learn_block(block, self.loss_, self._outputs())
        return self

    def _fit_stream(self, blocks: Blocks, classes: ArrayLike | None, watch: dict[str, Any]) -> Self:
        first, every = blocks.opened()
        if classes is None:
            classes = check_labels(first[1]) if blocks.labels is None else blocks.labels
        start = self._state_to_go_on_from() if self.warm_start else None
        self._start(check_classes(classes), goes_on=start is not None)
        encoded = (self._block(block, reset=i == 0) for i, block in enumerate(every))
        self._fit_blocks(encoded, self.loss_, self._outputs(), start, blocks.total, {**watch, "source": blocks.path})
        return self

    def _block(self, block: tuple[Any, Any, Any], reset: bool) -> Block:
        """Return a block of a stream as the solver takes it."""
        X, labels, weight = check_examples(self, block, check_labels, reset=reset)
        return X, *self._encoded(labels, weight, self._stream_weights())

    # --- labels ------------------------------------------------------------------------------------------

    def _start(self, classes: NDArray[Any], goes_on: bool = False) -> None:
        self._check_parameters()
        # The weights of a squared hinge that `fit` chose are no log-odds: they go on with that loss. With the logistic
        # loss, the log-loss of texts with a rare class rose from .27 to .42 after one more row.
        kept = goes_on and is_auto(self.loss) and np.array_equal(classes, self.classes_)
        self.classes_ = classes
        if not kept:
            self.loss_ = loss_for(None if is_auto(self.loss) else self.loss, classes.size, "logistic")

    def _outputs(self) -> int | None:
        return self.classes_.size if self.loss_.target == "class" else None

    def _encoded(
        self, labels: NDArray[Any], weight: Floats | None, by_class: Floats | None
    ) -> tuple[Any, Floats | None]:
        """Return labels as the loss takes them, -1 and +1 or indices, and the weights of the examples."""
        if weight is not None and self.classes_.dtype.kind == labels.dtype.kind:
            # A label whose examples all have weight zero may be unknown.
            labels = np.where((weight == 0) & ~np.isin(labels, self.classes_), self.classes_[0], labels)
        index = encode(labels, self.classes_)
        target = index if self.loss_.target == "class" else np.where(index == 1, 1.0, -1.0)
        return target, combined_weights(weight, by_class, index)

    def _announced(self, classes: ArrayLike | None, new: bool) -> NDArray[Any]:
        """Return the classes of a block: they are announced in the first call, and stay the same."""
        if new and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit: all labels that can occur")
        found = self.classes_ if classes is None else check_classes(classes)
        if not new and not np.array_equal(found, self.classes_):
            raise ValueError(f"classes={found.tolist()} differ from those of the first call: {self.classes_.tolist()}")
        return found

    def _stream_weights(self) -> Floats | None:
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight='balanced' needs to see all labels at once; for a stream, pass the weights as a dict"
            )
        return class_weights(self.class_weight, self.classes_, self.classes_)


@register("estimator", "online-regressor", examples=lambda: [OnlineRegressor()], cost="O(non-zeros) per row")
class OnlineRegressor(Online, LinearRegressor):
    r"""min over w, b of Omega(w) + (1/N) sum_i phi(y_i, <w, x_i> + b), online, for real targets.

    `loss` is `"squared"`, `"power-absolute"` or a loss object; all other parameters and attributes are those of
    `OnlineClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from spom import OnlineRegressor
    >>> from spom.penalties import L1
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((400, 50))
    >>> y = 2.0 * X[:, 3] - X[:, 7] + 5.0
    >>> model = OnlineRegressor(penalty=L1(0.01)).fit(X, y)
    >>> model.selected_, round(float(model.intercept_), 1)
    (array([3, 7]), 5.0)
    """

    def __init__(
        self,
        loss: Any = "squared",
        penalty: Any = "auto",
        mirror: Any = None,
        step: Any = "auto",
        epochs: int | str = "auto",
        fit_intercept: bool = True,
        *,
        update: str = "auto",
        projection: Any = None,
        output: str = "last",
        scale: Any = "auto",
        batch_size: int | None = 1,
        shuffle: bool = True,
        warm_start: bool = False,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 3,
        tol: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 1,
        callbacks: Any = None,
    ) -> None:
        keep(self, locals())

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        dev: Any = None,
        checkpoint: str | Path | None = None,
        checkpoint_every: int | float | str = "60s",
        resume: bool = False,
    ) -> Self:
        """Learn from data in memory, or, without y, from a stream: see `OnlineClassifier.fit`."""
        watch = {"dev": dev, "checkpoint": checkpoint, "checkpoint_every": checkpoint_every, "resume": resume}
        with all_or_nothing(self):
            if is_stream(X, y):
                blocks = Blocks(X, self._passes())
                start = self._state_to_go_on_from() if self.warm_start else None
                self._start()
                encoded = (self._block(block, reset=i == 0) for i, block in enumerate(blocks))
                self._fit_blocks(encoded, self.loss_, None, start, blocks.total, {**watch, "source": blocks.path})
                return self
            self._start()
            self._fit_memory(self._block((X, y, sample_weight), reset=True), self.loss_, None, watch)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from one more block."""
        with all_or_nothing(self):
            new = not self._begun()
            self._start()
            self._learn_block(self._block((X, y, sample_weight), reset=new), self.loss_, None)
        return self

    def _start(self) -> None:
        self._check_parameters()
        self.loss_ = regression_loss(self.loss, "squared")

    def _block(self, block: tuple[Any, Any, Any], reset: bool) -> Block:
        return check_examples(self, block, check_targets, reset=reset)

    def _row(self, weights: Floats) -> Floats:
        return weights

    def _bias(self, bias: Floats) -> Any:
        return float(bias)
