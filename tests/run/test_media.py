"""Pictures of tasks, small enough for a report."""

import numpy as np
import pytest
from PIL import Image

import crowdwise as cw
from crowdwise.errors import FeaturesError
from crowdwise.run.media import LEAST, SHOWN, SIDE, keep_pictures, open_images, pixels


@pytest.fixture
def answers():
    return cw.Answers.from_arrays([0, 1, 2], ["a"] * 3, ["x", "y", "x"])


def written(folder, images, order):
    return {task: Image.open(folder / place) for task, place in keep_pictures(images, order, folder).items()}


def test_pictures_are_kept_in_the_order_asked_and_no_more_than_shown(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (SHOWN + 5, 70, 70, 3), dtype=np.uint8)
    order = list(range(SHOWN + 5))[::-1]
    kept = written(tmp_path, images, order)
    assert list(kept) == order[:SHOWN]
    np.testing.assert_array_equal(np.asarray(kept[order[0]]), images[order[0]])


def test_large_ones_are_shrunk_and_tiny_ones_grow_by_whole_pixels(tmp_path):
    large = written(tmp_path, np.zeros((1, 400, 800), np.uint8), [0])[0]
    assert max(large.size) == SIDE and large.size[0] == 2 * large.size[1]
    tiny = np.arange(64, dtype=float).reshape(1, 8, 8)
    grown = np.asarray(written(tmp_path, tiny, [0])[0])
    times = SIDE // 8
    assert grown.shape == (8 * times, 8 * times) and min(grown.shape) >= LEAST
    assert len(np.unique(grown[:times, :times])) == 1 and grown[0, 0] == 0 and grown[-1, -1] == 255


def test_every_kind_of_image_becomes_bytes(tmp_path, answers):
    for shape in ((3, 4, 5), (3, 4, 5, 1), (3, 4, 5, 3), (3, 4, 5, 4)):
        image = pixels(open_images(np.random.default_rng(0).random(shape), answers), 0)
        assert image.dtype == np.uint8 and image.shape in ((4, 5), (4, 5, 3))
    for number in range(3):
        Image.fromarray(np.full((9, 9, 3), 40 * number, np.uint8)).save(tmp_path / f"{number}.png")
    assert pixels(open_images(tmp_path, answers), 2).tolist() == np.full((9, 9, 3), 80).tolist()


def test_images_that_do_not_fit_are_refused(answers):
    with pytest.raises(FeaturesError, match="2 images for 3 tasks"):
        open_images(np.zeros((2, 4, 4)), answers)
    with pytest.raises(FeaturesError, match="height"):
        open_images(np.zeros((3, 4)), answers)
