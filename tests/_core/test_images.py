"""Images: only known formats are opened, and none that is too large."""

from __future__ import annotations

import io
import struct
import zlib

import pytest

from crowdwise._core.images import FORMATS, MAX_PIXELS, InvalidImageError, open_image
from crowdwise.errors import FeaturesError
from crowdwise.learn.features import open_features

pillow = pytest.importorskip("PIL.Image", reason="Pillow is not installed (crowdwise[images]): NOT tested")


def png(width: int, height: int) -> bytes:
    """Return a PNG file that announces a size and has no pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.mark.parametrize("form", FORMATS)
def test_accepted_formats_are_opened(form):
    file = io.BytesIO()
    pillow.new("RGB", (3, 2), (255, 0, 0)).save(file, form)
    with open_image(file) as image:
        assert image.convert("RGB").size == (3, 2)


@pytest.mark.parametrize("side", [7_000, 13_000, 40_000])
def test_an_image_that_announces_too_many_pixels_is_not_decoded(side, tmp_path):
    assert side**2 > MAX_PIXELS
    with pytest.raises(InvalidImageError, match=r"pixels.*make it smaller"), open_image(io.BytesIO(png(side, side))):
        pass
    (tmp_path / "a.png").write_bytes(png(side, side))
    with pytest.raises(FeaturesError, match=r"image a.png cannot be decoded: it has .* pixels"):
        open_features(tmp_path)


def test_postscript_never_reaches_its_interpreter(tmp_path):
    content = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n"
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(FeaturesError, match=r"image a.png cannot be decoded: it is not a BMP"):
        open_features(tmp_path)


def test_truncated_pixels_are_an_error_that_names_the_reason():
    file = io.BytesIO()
    pillow.effect_noise((64, 64), 50).save(file, "PNG")
    with (
        pytest.raises(InvalidImageError, match="truncated"),
        open_image(io.BytesIO(file.getvalue()[:2000])) as image,
    ):
        image.convert("RGB")
