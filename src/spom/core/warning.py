"""Warnings that point at the caller's line, however deep in this package their cause is found."""

from __future__ import annotations

import sys
import warnings
from types import FrameType


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line that called into this package.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn("every weight is zero")
    >>> str(caught[0].message), caught[0].category is UserWarning
    ('every weight is zero', True)
    """
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and frame.f_globals.get("__name__", "").startswith("spom."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
