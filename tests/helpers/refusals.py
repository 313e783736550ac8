"""What tests of files that are wrong share."""

import pytest

from crowdwise.io import read


def check(error, match, path, **options):
    with pytest.raises(error, match=match):
        read(path, **options)
