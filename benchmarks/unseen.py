"""Defaults on tables of R packages that were not used to choose any rule.

    Rscript benchmarks/unseen.R FOLDER
    SPOM_UNSEEN=FOLDER python -m benchmarks unseen

Categories become columns of zeros and ones, missing numbers become the median. There are five splits (kernels: two),
with 70 % of the rows for training (60 %, at most 1,100 rows). The other tools have their defaults; for `SVC` three
folds choose kernel, width and C. "Scaled" is the best of the same tools behind a `StandardScaler`.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import Table

# The target, and columns that are names or reveal the target.
CLASSES: dict[str, tuple[str, ...]] = {
    "mlbench_BreastCancer": ("Class", "Id"),
    "mlbench_DNA": ("Class",),
    "mlbench_Glass": ("Type",),
    "mlbench_HouseVotes84": ("Class",),
    "mlbench_Ionosphere": ("Class",),
    "mlbench_PimaIndiansDiabetes": ("diabetes",),
    "mlbench_Satellite": ("classes",),
    "mlbench_Shuttle": ("Class",),
    "mlbench_Sonar": ("Class",),
    "mlbench_Soybean": ("Class",),
    "mlbench_Vehicle": ("Class",),
    "mlbench_Vowel": ("Class",),
    "mlbench_Zoo": ("type",),
    "kernlab_income": ("INCOME",),
    "kernlab_musk": ("Class",),
    "kernlab_promotergene": ("Class",),
    "kernlab_spam": ("type",),
    "kernlab_ticdata": ("CARAVAN",),
    "caret_GermanCredit": ("Class",),
    "caret_dhfr": ("Y",),
    "caret_segmentationData": ("Class", "Cell", "Case"),
    "mclust_banknote": ("Status",),
    "mclust_diabetes": ("class",),
    "mclust_thyroid": ("Diagnosis",),
    "modeldata_ad_data": ("Class",),
    "modeldata_attrition": ("Attrition",),
    "modeldata_credit_data": ("Status",),
    "modeldata_hpc_data": ("class",),
    "modeldata_lending_club": ("Class",),
    "modeldata_mlc_churn": ("churn",),
    "modeldata_parabolic": ("class",),
    "modeldata_pd_speech": ("class",),
    "modeldata_penguins": ("species",),
    "modeldata_stackoverflow": ("Remote",),
    "modeldata_two_class_dat": ("Class",),
    "modeldata_wa_churn": ("churn",),
    "MASS_birthwt": ("low", "bwt"),
    "MASS_crabs": ("sp",),
    "MASS_fgl": ("type",),
    "MASS_Pima.tr": ("type",),
}
NUMBERS: dict[str, tuple[str, ...]] = {
    "mlbench_BostonHousing": ("medv",),
    "mlbench_Ozone": ("V4",),
    "mlbench_Servo": ("Class",),
    "caret_cars": ("Price",),
    "modeldata_ames": ("Sale_Price",),
    "modeldata_biomass": ("HHV", "sample", "dataset"),
    "modeldata_Chicago": ("ridership", "date"),
    "modeldata_concrete": ("compressive_strength",),
    "modeldata_meats": ("protein", "water", "fat"),
    "modeldata_Sacramento": ("price", "zip"),
    "modeldata_check_times": ("check_time", "package"),
    "modeldata_stackoverflow": ("Salary",),
    "MASS_cpus": ("perf", "name", "estperf"),
}
MARGIN = 0.005
Models = dict[str, Callable[[int], Any]]


def main(part: str = "") -> None:
    """Print all three tables, or the named one: classes, numbers or kernels."""
    folder = os.environ.get("SPOM_UNSEEN")
    if not folder or not Path(folder).is_dir():
        print("  (skipped: set SPOM_UNSEEN to the folder that benchmarks/unseen.R has filled)")
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if part in ("", "classes"):
            _compare(Path(folder), "classes, accuracy", CLASSES, _classifiers(), 0.7, 5)
        if part in ("", "numbers"):
            _compare(Path(folder), "numbers, R2", NUMBERS, _regressors(), 0.7, 5)
        if part in ("", "kernels"):
            _compare(Path(folder), "classes with kernels, accuracy", CLASSES, _kernels(), 0.6, 2, most=1100)


def _read(folder: Path, name: str, columns: tuple[str, ...], real: bool, most: int) -> tuple[Any, Any]:
    import pandas as pd

    frame = pd.read_csv(folder / f"{name}.csv").dropna(subset=[columns[0]])
    X = pd.get_dummies(frame.drop(columns=list(columns)))
    X = X.fillna(X.median(numeric_only=True)).to_numpy(float)
    if real:
        return X, frame[columns[0]].to_numpy(float)
    chosen = np.random.default_rng(0).permutation(len(X))[:most]
    X, y = X[chosen], frame[columns[0]].to_numpy(str)[chosen]
    values, counts = np.unique(y, return_counts=True)
    kept = np.isin(y, values[counts >= 8])
    return X[kept], y[kept]


def _scaled(model: Any) -> Any:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), model)


def _classifiers() -> dict[str, Models]:
    from sklearn.linear_model import LogisticRegression, SGDClassifier
    from sklearn.svm import LinearSVC

    from spom import OnlineClassifier, ProximalClassifier

    peers: Models = {
        "SGDClassifier": lambda seed: SGDClassifier(random_state=seed),
        "LogisticRegression": lambda seed: LogisticRegression(),
        "LinearSVC": lambda seed: LinearSVC(),
    }
    ours: Models = {
        "OnlineClassifier": lambda seed: OnlineClassifier(random_state=seed, verbose=0),
        "ProximalClassifier": lambda seed: ProximalClassifier(verbose=0),
    }
    scaled: Models = {name: lambda seed, make=make: _scaled(make(seed)) for name, make in peers.items()}
    return {"ours": ours, "plain": peers, "scaled": scaled}


def _regressors() -> dict[str, Models]:
    from sklearn.linear_model import Ridge, RidgeCV

    from spom import OnlineRegressor, ProximalRegressor

    ours: Models = {
        "OnlineRegressor": lambda seed: OnlineRegressor(random_state=seed, verbose=0),
        "ProximalRegressor": lambda seed: ProximalRegressor(verbose=0),
    }
    plain: Models = {"Ridge": lambda seed: Ridge()}
    scaled: Models = {"Ridge": lambda seed: _scaled(Ridge()), "RidgeCV": lambda seed: _scaled(RidgeCV())}
    return {"ours": ours, "plain": plain, "scaled": scaled}


def _kernels() -> dict[str, Models]:
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import SVC

    from spom import MKLClassifier

    grid = [
        {"svc__kernel": ["linear"]},
        {"svc__kernel": ["poly"], "svc__degree": [2], "svc__coef0": [1]},
        {"svc__kernel": ["rbf"], "svc__gamma": ["auto", 0.01, 0.1]},
    ]
    costs = {"svc__C": [0.1, 1.0, 10.0, 100.0]}
    ours: Models = {"MKLClassifier": lambda seed: _scaled(MKLClassifier(random_state=seed, verbose=0))}
    peers: Models = {"SVC, grid": lambda seed: GridSearchCV(_scaled(SVC()), [{**part, **costs} for part in grid], cv=3)}
    return {"ours": ours, "scaled": peers}


def _compare(
    folder: Path,
    title: str,
    sets: dict[str, tuple[str, ...]],
    models: dict[str, Models],
    share: float,
    splits: int,
    most: int = 10**9,
) -> None:
    from sklearn.model_selection import train_test_split

    real = sets is NUMBERS
    differences: dict[tuple[str, str], dict[str, float]] = {}
    for name, columns in sets.items():
        if not (folder / f"{name}.csv").is_file():
            print(f"  ({name}: not there)")
            continue
        X, y = _read(folder, name, columns, real, most)
        found: dict[str, dict[str, float]] = {group: {} for group in models}
        for seed in range(splits):
            rows = train_test_split(X, y, train_size=share, random_state=seed, stratify=None if real else y)
            for group, makers in models.items():
                for learner, make in makers.items():
                    score = make(seed).fit(rows[0], rows[2]).score(rows[1], rows[3])
                    found[group][learner] = found[group].get(learner, 0.0) + score / splits
        for learner, score in found["ours"].items():
            for group in [group for group in models if group != "ours"]:
                differences.setdefault((learner, group), {})[name] = score - max(found[group].values())
    table = Table(f"tables that no rule was chosen on: {title}", settings="mean difference to the best other tool")
    for (learner, group), found_here in differences.items():
        gaps = np.array(list(found_here.values()))
        behind = ", ".join(f"{name} {gap:+.4f}" for name, gap in found_here.items() if gap < -MARGIN)
        table.add(f"{learner}, {group}, {gaps.size} tables, worst {gaps.min():+.4f}", float(gaps.mean()))
        print(f"    behind by more than {MARGIN}: {behind or 'none'}")
