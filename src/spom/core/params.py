"""Parameters that scikit-learn can reach: `get_params` and `set_params` for penalties, losses, maps."""

from __future__ import annotations

import inspect
from typing import Any, Self


def keep(instance: Any, values: dict[str, Any]) -> None:
    """Keep the arguments of a constructor under their own names: `keep(self, locals())`."""
    vars(instance).update({name: value for name, value in values.items() if name not in ("self", "__class__")})


class Parameters:
    """An object that is its constructor's arguments, each kept under its own name and as it was given.

    scikit-learn's `clone`, `set_params("penalty__strength")` and grid search work on such an object
    without scikit-learn being imported here.
    """

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        """The constructor's arguments by name, with their defaults."""
        if cls.__init__ is object.__init__:
            return {}
        return {a.name: a.default for a in list(inspect.signature(cls.__init__).parameters.values())[1:]}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name; with `deep`, those of parameters that have parameters as `outer__inner`."""
        found: dict[str, Any] = {name: getattr(self, name) for name in self._defaults()}
        if deep:
            for name, value in list(found.items()):
                if hasattr(value, "get_params") and not isinstance(value, type):
                    found.update({f"{name}__{k}": v for k, v in value.get_params(deep=True).items()})
        return found

    def set_params(self, **params: Any) -> Self:
        """Change parameters by name (`inner__name` reaches into a parameter); all are checked, or none is set."""
        known = self.get_params(deep=True)
        for name in params:
            if name not in known:
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}; it has {sorted(known)}")
        before = {name: known[name] for name in params}
        try:
            self._assign(params)
            self._check()
        except ValueError:
            self._assign(before)
            raise
        return self

    def _assign(self, params: dict[str, Any]) -> None:
        for name, value in params.items():
            outer, _, inner = name.partition("__")
            if inner:
                getattr(self, outer).set_params(**{inner: value})
            else:
                setattr(self, outer, value)

    def _check(self) -> None:
        """Raise a `ValueError` where a parameter makes no sense; constructors and `set_params` call it."""

    def __repr__(self) -> str:
        # Compared as text: values may be arrays, and a copy of a default is the default still.
        pairs = [(name, _short(getattr(self, name)), _short(default)) for name, default in self._defaults().items()]
        shown = ", ".join(f"{name}={value}" for name, value, default in pairs if value != default)
        return f"{type(self).__name__}({shown})"


def _short(value: Any) -> str:
    text = repr(value).replace("\n", " ")
    return text if len(text) <= 60 else text[:57] + "..."
