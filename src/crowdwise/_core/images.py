"""Opening image files that may be hostile: few formats, and a limit on the pixels that the header announces.

Pillow recognises dozens of formats by content, whatever the name, and some start other programs: PostScript runs
Ghostscript. And a file of a few kilobytes can announce more pixels than fit in memory.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
MAX_PIXELS = 40_000_000  # decoding one takes about 1 GB as floats


class InvalidImageError(ValueError):
    """An image that is damaged, too large, or not of an accepted format."""


@contextmanager
def open_image(source: Path | IO[bytes]) -> Iterator[Any]:
    """Open an image with Pillow; nothing is decoded before its format and size are checked.

    Raises
    ------
    InvalidImageError
        Also for errors while the image is used in the `with` block.
    ImportError
        Without Pillow.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(source, formats=FORMATS)
        with image:
            width, height = image.size
            if width * height > MAX_PIXELS:
                message = f"it has {width:,} x {height:,} pixels, more than {MAX_PIXELS:,}; make it smaller"
                raise InvalidImageError(message)
            yield image
    except UnidentifiedImageError:
        message = f"it is not a {', '.join(FORMATS[:-1])} or {FORMATS[-1]} image"
        raise InvalidImageError(message) from None
    except (Image.DecompressionBombWarning, Image.DecompressionBombError):
        message = f"it has more than {MAX_PIXELS:,} pixels; make it smaller"
        raise InvalidImageError(message) from None
    except InvalidImageError:
        raise
    except (OSError, SyntaxError, ValueError, MemoryError, OverflowError) as error:  # damaged files fail in many ways
        message = str(error) or type(error).__name__
        raise InvalidImageError(message) from None
