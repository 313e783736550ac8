import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import crowdwise as cw
from crowdwise import Ratings
from crowdwise.answers.pseudonyms import pseudonymised
from crowdwise.errors import AnswerKindError, DuplicateError, UnknownIdError

TASK, WORKER = [1, 1, 2, 2], ["a", "b", "a", "b"]


def rated(values, **options):
    return Ratings.from_arrays(TASK, WORKER, values, **options)


@pytest.mark.parametrize(
    ("values", "levels"),
    [
        ([1, 5, 4, 4], [1, 2, 3, 4, 5]),  # unused levels belong to the scale
        ([0.5, 1.0, 2.5, 2.0], [0.5, 1.0, 1.5, 2.0, 2.5]),
        ([0, 50, 75, 100], [0, 25, 50, 75, 100]),
        (["1", "3", "2", "2"], [1, 2, 3]),
        (["1,5", "2,5", "2", "1"], [1.0, 1.5, 2.0, 2.5]),
        (["good", "poor", "fair", "good"], ["poor", "fair", "good"]),
        (["10 best", "2 low", "1 worst", "2 low"], ["1 worst", "2 low", "10 best"]),
    ],
)
def test_levels_of_a_scale_are_found_in_their_natural_order(values, levels):
    ratings = rated(values)
    assert ratings.levels.tolist() == levels
    assert not ratings.numeric
    assert (np.diff(ratings.values) > 0).all()


@pytest.mark.parametrize("values", [[0.3, 17.25, 100.0, 3.0], [1, 7, 80, 44], ["0.31", "2,7", "1e3", "-4"]])
def test_other_numbers_are_numbers(values):
    ratings = rated(values)
    assert ratings.numeric
    expected = [float(str(value).replace(",", ".")) for value in values]
    assert ratings.value.tolist() == expected
    assert ratings.to_arrow().column("label").to_pylist() == expected


def test_the_order_of_names_can_be_given_and_an_unknown_order_is_an_error():
    assert rated(["x", "z", "y", "x"], levels=["z", "y", "x"]).value.tolist() == [2.0, 0.0, 1.0, 2.0]
    with pytest.raises(AnswerKindError, match="order of the levels 'x', 'y', 'z' is not known"):
        rated(["x", "z", "y", "x"])
    with pytest.raises(UnknownIdError, match="'w' at row 1 is not one of the levels"):
        rated(["x", "w", "y", "x"], levels=["z", "y", "x"])
    with pytest.raises(UnknownIdError, match=r"7 at row 2 .* is not one of the levels"):
        rated([1, 2, 7, 3], levels=[1, 2, 3, 4, 5])
    with pytest.raises(AnswerKindError, match=r"'cat' at row 1 .* is not a number"):
        rated(["1", "cat", "2", "3"], numeric=True)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table, dict])
def test_every_frame_gives_the_same_ratings(make):
    frame = make({"task": TASK, "worker": WORKER, "rating": [1.5, 2.0, 4.0, 3.5], "truth": [1.75, None, None, 3.0]})
    ratings = Ratings.from_frame(frame)
    assert ratings.value.tolist() == [1.5, 2.0, 4.0, 3.5]
    assert ratings.truth.tolist() == [1.75, 3.0]


def test_missing_ratings_are_dropped_and_counted_only_if_asked():
    frame = pd.DataFrame({"task": TASK, "worker": WORKER, "rating": [1, np.nan, 3, 2]})
    with pytest.raises(cw.CrowdwiseError, match="is empty in 1 of 4 rows"):
        Ratings.from_frame(frame)
    ratings = Ratings.from_frame(frame, nulls="drop")
    assert (ratings.n_answers, ratings.removed, ratings.abstentions) == (3, {"rows with a missing value": 1}, {"b": 1})


def test_truth_need_not_be_a_level_and_survives_selection_and_merging():
    ratings = rated([1, 2, 5, 4]).with_truth({2: 4.4})
    assert np.isnan(ratings.truth[0])
    assert ratings[[1]].truth.tolist() == [4.4]
    more = Ratings.from_arrays([2, 3], ["c", "c"], [7, 0]).with_truth({3: 0.5, 2: 9})
    merged = ratings.merge(more)
    assert merged.truth.tolist()[1:] == [4.4, 0.5]
    assert merged.levels.tolist() == list(range(8))
    assert dict(zip(zip(merged.task, merged.worker, strict=True), merged.value, strict=True)) == {
        (0, 0): 1, (0, 1): 2, (1, 0): 5, (1, 1): 4, (1, 2): 7, (2, 2): 0
    }  # fmt: skip
    with pytest.raises(DuplicateError, match="two known labels"):
        Ratings.from_frame({"task": [1, 1], "worker": ["a", "b"], "rating": [1, 2], "truth": [1, 2]})


def test_selection_and_pseudonyms_keep_the_values():
    ratings = rated([1, 2, 5, 4], weight=[1, 2, 3, 4])
    chosen = ratings.select(tasks=[2], workers=["b"])
    assert (chosen.value.tolist(), chosen.weight.tolist(), chosen.n_classes) == ([4.0], [4.0], 5)
    shared, row = pseudonymised(ratings, b"a key that nobody guesses")
    assert shared.value.tolist() == ratings.value[row].tolist()
    assert ratings.thin(0.5, seed=1).n_answers == 2


def test_a_method_for_another_kind_names_the_ones_that_fit():
    with pytest.raises(AnswerKindError, match=r"DawidSkene takes classes, but the answers are ratings. .*median"):
        cw.DawidSkene().fit(rated([1, 2, 5, 4]))
    with pytest.raises(AnswerKindError, match=r"Median takes ratings, but the answers are classes. .*dawid-skene"):
        cw.Median().fit(cw.Answers.from_arrays(TASK, WORKER, list("xyxy")))
    with pytest.raises(AnswerKindError, match=r"MeanRounded takes levels of a scale, .* Methods for numbers: mean,"):
        cw.MeanRounded().fit(rated([0.31, 2.7, 1e3, -4.0]))
