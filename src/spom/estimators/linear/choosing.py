"""How a linear estimator handles `penalty="auto"`, the name of a penalty, `loss="auto"` and `scale="auto"`."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any, Self

import numpy as np
from scipy import sparse

from spom.core.arrays import Floats
from spom.core.registry import TakesPenalty
from spom.core.warning import warn
from spom.errors import Unsupported
from spom.estimators.checking import merged, operator
from spom.estimators.linear.base import LinearModel
from spom.estimators.linear.scaling import Scaling, common, measured, rooted, without_empty
from spom.estimators.linear.strength import Choice, Examples, Path, choose, held_out, is_surely_better, is_wide
from spom.losses import MulticlassLogistic, MulticlassPowerHinge, PowerHinge
from spom.penalties import SquaredL2, Zero

# The penalty that "auto" stands for.
AUTO = SquaredL2(1.0)
# Two classes of wide sparse data get the squared hinge if one has less than this share of the rows. Compared with the
# logistic loss on other training rows (303 problems of texts), its average precision is .005 higher, the F1 of the rare
# class .031 and accuracy .0013. To try both on held-out rows takes twice the time, and is no better.
RARE = 1 / 3
# With at most this many rows, equal rows are merged, and their order in the data does not matter.
FEW_ROWS = 1000


def is_auto(given: Any) -> bool:
    """Tell whether a parameter is left to the data."""
    return isinstance(given, str) and given == "auto"


class Choosing(TakesPenalty, LinearModel):
    """The parameters that may be left to the data."""

    loss: Any
    penalty: Any
    scale: Any
    verbose: int
    fit_intercept: bool
    penalty_: Any
    loss_: Any
    calibration_: float
    scale_: Floats | None
    _scaling: Scaling | None = None
    # The value subtracted from real targets, which is added back to the intercept.
    _shift: float = 0.0

    def _auto_penalty(self) -> str:
        return "squared-l2"

    def set_params(self, **params: Any) -> Self:
        """Set parameters as in scikit-learn. `penalty__strength` also works if the penalty is "auto" or a name.

        The penalty is then that of the name, or `SquaredL2` for "auto", and `scale="auto"` becomes True: the strength
        refers to the scale in which "auto" would have chosen it.
        """
        named = isinstance(params.get("penalty", self.penalty), str)
        super().set_params(**params)
        if named and not isinstance(self.penalty, str) and is_auto(self.scale):
            self.scale = True
        return self

    def _given_penalty(self, kind: Any = AUTO) -> tuple[Any, bool]:
        """Return the penalty, and whether its strength is left to the data; omitted groups are the rows."""
        if self.penalty is None:
            return Zero(), False
        if is_auto(self.penalty):
            return kind, True
        found = operator("penalty", self.penalty)
        params = found.get_params(deep=False)
        if "groups" in params and params["groups"] is None:
            found = type(found)(**{**params, "groups": "rows"})
        return found, isinstance(self.penalty, str) and "strength" in params

    def _prepared(
        self, examples: Examples, kind: Any, seed: int, path: Path | None = None
    ) -> tuple[Any, Floats | None]:
        """Scale the columns and choose what is left to the data; return the columns, and the optimum if it is known.

        Sets `penalty_`, `loss_`, `scale_` and, if the loss is not a likelihood, `calibration_`.
        """
        penalty, left = self._given_penalty(kind)
        wanted = self._scales(kind)
        real = self.loss_.target == "real"
        self._scaling = measured(examples.X, examples.weight, examples.intercept, real) if wanted else None
        if hasattr(self, "calibration_"):
            del self.calibration_
        self.penalty_ = penalty
        if left and kind is AUTO and penalty.separable:
            self._scaling = without_empty(examples.X, self._scaling)
        theta = self._take(self._choice(examples, penalty, seed, path)) if left else None
        self.scale_ = None if self._scaling is None else self._scaling.shown
        return _scaled(examples, self._scaling).X, theta

    def _choice(self, examples: Examples, penalty: Any, seed: int, path: Path | None) -> Choice:
        """Choose strength and loss; if another scale may be better, try it too, and take the better one."""
        rows = self._judges(examples)
        scaled, parts = _scaled(rows, self._scaling), held_out(rows, seed)
        choice = choose(scaled, self._losses(scaled), penalty, seed, path, parts)
        usual = penalty is AUTO and is_auto(self.scale) and self.loss_.target != "real"
        other = self._other_scale(examples, scaled) if usual else None
        if other is None:
            return choice
        # With the loss of the first choice alone: both losses gave other weights on 5 of 116 cuts, equally good ones.
        rival = choose(_scaled(rows, other), [choice.loss], penalty, seed, path, parts)
        if not is_surely_better(rival, choice):
            return choice
        self._scaling = other
        return rival

    def _other_scale(self, examples: Examples, scaled: Examples) -> Scaling | None:
        """Return a second scale to try: one for all of a few dense columns, or another one for two classes of texts.

        Few dense rows gain by it (docs: defaults): columns that vary little, as at the border of images, carry little
        information. With two frequent classes words that are rare may have larger weights.
        """
        if sparse.issparse(examples.X):
            two = self.loss_.target == "sign" and is_wide(scaled.X) and _rarest(scaled) >= RARE
            return rooted(examples.X, examples.weight, self._scaling) if two else None
        few = examples.X.shape[0] <= FEW_ROWS and examples.intercept
        return common(examples.X, examples.weight) if few else None

    def _scales(self, kind: Any) -> bool:
        """Tell whether to learn as if columns were standardised."""
        return self._given_penalty(kind)[1] if is_auto(self.scale) else bool(self.scale)

    def _judges(self, examples: Examples) -> Examples:
        """Return the examples; among few rows equal ones are merged, so their order and repetition do not matter."""
        if examples.distinct or examples.X.shape[0] > FEW_ROWS:
            return examples
        X, y, weight = merged(examples.X, examples.y, examples.weight)
        return replace(examples, X=X, y=y, weight=weight, distinct=True)

    def _losses(self, examples: Examples) -> list[Any]:
        """Return the losses to choose from, the default first.

        For sparse data with more features than rows, one class against the rest with the squared hinge does best, and
        so it does for two classes of which one is rare; otherwise the likelihood does best. This is a result of the
        benchmark suite (docs: defaults), and held-out rows may overrule it for more than two classes.
        """
        wide = is_wide(examples.X)
        if not is_auto(self.loss) or self.loss_.target == "real":
            return [self.loss_]
        if self.loss_.target == "sign":
            return [PowerHinge(2.0) if wide and _rarest(examples) < RARE else self.loss_]
        found = [MulticlassLogistic(), MulticlassPowerHinge(2.0)]
        return found[::-1] if wide else found

    def _take(self, choice: Choice) -> Floats | None:
        self.penalty_, self.loss_ = choice.penalty, choice.loss
        if is_auto(self.loss) and not choice.loss.probabilistic:
            self.calibration_ = choice.calibration
        if self.verbose and sys.stderr.isatty():
            print(f"{type(self).__name__}: {choice}", file=sys.stderr)
        return choice.theta

    def _on_stream(self) -> None:
        """Set the parameters left to the data for a stream, which has no rows to hold out."""
        self.penalty_, left = self._given_penalty(Zero())
        self._scaling, self.scale_, self._shift = None, None, 0.0
        if left and self.penalty != "auto":
            raise Unsupported(
                f"the strength of penalty={self.penalty!r} is chosen on held-out rows, which a stream does not have: "
                f"give an object, such as {type(self.penalty_).__name__}(1e-4)"
            )

    def _unfolded(self, theta: Floats) -> Floats:
        """Return weights and intercept in the user's scale."""
        found = theta if self._scaling is None else self._scaling.unfold(theta, self.fit_intercept)
        return found if self._shift == 0.0 else _raised(found, self._shift)

    def _folded(self, theta: Floats) -> Floats:
        found = theta if self._shift == 0.0 else _raised(theta, -self._shift)
        return found if self._scaling is None else self._scaling.fold(found, self.fit_intercept)

    def _warn_if_zero(self, coef: Any) -> None:
        """Warn if nothing was learnt."""
        if (
            np.any(coef.data if sparse.issparse(coef) else coef)
            or np.size(coef) == 0
            or isinstance(self.penalty_, Zero)
        ):
            return
        nothing = "the features do not predict the target"
        if is_auto(self.penalty):
            what = f"{nothing} in a linear model; to choose a penalty yourself, set penalty="
        else:
            what = f"{self.penalty_!r} is too strong for these data, or {nothing}"
            what += "; lower its strength, or use penalty='auto', which chooses one"
        warn(f"every weight is zero: {what}")


def _rarest(examples: Examples) -> float:
    """Return the share of the rarer of two classes."""
    share = float(np.average(examples.y > 0.0, weights=examples.weights))
    return min(share, 1.0 - share)


def _scaled(examples: Examples, scaling: Scaling | None) -> Examples:
    return examples if scaling is None else replace(examples, X=scaling.apply(examples.X))


def _raised(theta: Floats, shift: float) -> Floats:
    """Return theta with `shift` added to the intercept, its last entry."""
    found = theta.copy()
    found[-1] += shift
    return found
