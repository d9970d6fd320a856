"""Operators from what the command line says."""

from __future__ import annotations

from typing import Any

from spom.core import registry
from spom.errors import Unsupported


def penalty_of(name: str | None, strength: float | None, groups: str | None, default: Any) -> Any:
    """The penalty that the options mean; what is left out is as in `default`.

    >>> from spom.penalties import L1
    >>> penalty_of("group-lasso", None, "rows", L1(0.5))
    GroupLasso(strength=0.5, groups='rows')
    """
    if name is None and strength is None and groups is None:
        return default
    base = default.get_params(deep=False) if default is not None else {}
    cls: Any = type(default) if name is None else registry.find("penalty", name).cls
    known = cls._defaults()
    params: dict[str, Any] = dict(base) if name is None else {}
    if "strength" in known:
        params["strength"] = base.get("strength", 1e-4) if strength is None else strength
    elif "radius" in known:
        params["radius"] = 1.0 if strength is None else strength
    elif strength is not None:
        raise Unsupported(f"the penalty {name} has no strength")
    if groups is not None:
        if "groups" not in known:
            raise Unsupported(f"the penalty {name or registry_name(default)} has no groups")
        params["groups"] = int(groups) if groups.isdigit() else groups
    return cls(**params)


def registry_name(operator: Any) -> str:
    """The registered name of a penalty, or the name of its class."""
    found = [entry.name for entry in registry.entries("penalty") if entry.cls is type(operator)]
    return found[0] if found else type(operator).__name__


def pruning_of(text: str | None) -> Any:
    """What `--prune` means: auto, a number of templates, or a strength or share (a number with a point).

    >>> pruning_of("auto"), pruning_of("12"), pruning_of("0.02")
    ('auto', 12, 0.02)
    """
    if text is None or text == "auto":
        return text
    try:
        return int(text) if text.isdigit() else float(text)
    except ValueError:
        raise ValueError(
            f"--prune takes auto, a number of templates, or a strength such as 0.02; not {text!r}"
        ) from None
