"""Every estimator with only the data as argument, against the peers' defaults: `python -m benchmarks defaults`.

Each file for a kind of learner has `LEARNERS` and a `run(...)` that yields `Row`s; `rows.py` stores and prints them. A
part names a kind, a data set and a learner, each of which is optional:
`defaults:classification/polarity-tfidf/Online`.
"""

from __future__ import annotations

from benchmarks.defaults.rows import main

__all__ = ["main"]
