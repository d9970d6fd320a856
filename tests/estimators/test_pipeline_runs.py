"""Hashes of runs of characters in scripts with and without blanks."""

from __future__ import annotations

from spom.estimators.pipeline.characters import characters_of, lowered, runs_of


def test_a_run_in_a_script_without_blanks_has_no_hashes() -> None:
    characters = characters_of("\u6211\u4eec are \u4e2da! a\u4e2d here")
    runs = runs_of(characters, lowered(characters.points))
    for found in (runs.whole, runs.lower, runs.shape):
        assert (found == 0).tolist() == [True, False, True, True, False]
    assert not runs.marks.any()
