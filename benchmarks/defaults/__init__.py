"""Every estimator with no argument but the data, beside the peers with theirs: `python -m benchmarks defaults`.

One file per kind of learner has `LEARNERS` and a `run(...)` that yields `Row`s; `rows.py` stores and prints them. A
part names a kind, a data set and a learner, each of which may be left out:
`defaults:classification/polarity-tfidf/Online`.
"""

from __future__ import annotations

from benchmarks.defaults.rows import main

__all__ = ["main"]
