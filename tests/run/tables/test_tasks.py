"""The ranking of tasks by disagreement, and thumbnails."""

import numpy as np
from PIL import Image

from crowdwise import Answers
from crowdwise.run.tables.labels import Labelling
from crowdwise.run.tables.tasks import MAX_THUMBNAILS, MIN_SIDE, SIDE, Disagreement, write_thumbnails


def test_disagreement_weights_answers_by_trust():
    answers = Answers.from_arrays([1, 1, 2, 2, 3, 3], list("abacbc"), list("xyxyxx"))
    labelling = Labelling(answers, np.full((3, 2), 0.5), np.zeros(3, int))
    even = Disagreement(labelling, np.array([0.9, 0.9, 0.9])).scores_
    np.testing.assert_allclose(even, [0, 0, 1], atol=1e-9)
    uneven = Disagreement(labelling, np.array([0.9, 0.9, 0.1])).scores_
    assert uneven[0] < uneven[1] < uneven[2]  # c's contradiction of a weighs less


def written(folder, images, order):
    return {task: Image.open(folder / name) for task, name in write_thumbnails(images, order, folder).items()}


def test_thumbnails_follow_the_order_and_are_limited_in_number(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (MAX_THUMBNAILS + 5, 70, 70, 3), dtype=np.uint8)
    order = list(range(MAX_THUMBNAILS + 5))[::-1]
    thumbnails = written(tmp_path, images, order)
    assert list(thumbnails) == order[:MAX_THUMBNAILS]
    np.testing.assert_array_equal(np.asarray(thumbnails[order[0]]), images[order[0]])


def test_large_images_shrink_and_tiny_ones_grow_by_an_integer_factor(tmp_path):
    large = written(tmp_path, np.zeros((1, 400, 800), np.uint8), [0])[0]
    assert max(large.size) == SIDE and large.size[0] == 2 * large.size[1]
    tiny = np.arange(64, dtype=float).reshape(1, 8, 8)
    grown = np.asarray(written(tmp_path, tiny, [0])[0])
    factor = SIDE // 8
    assert grown.shape == (8 * factor, 8 * factor) and min(grown.shape) >= MIN_SIDE
    assert len(np.unique(grown[:factor, :factor])) == 1 and grown[0, 0] == 0 and grown[-1, -1] == 255
