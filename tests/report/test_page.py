"""The chart library is put together once per version and user."""

from __future__ import annotations

import pytest
import vl_convert

from crowdwise.report import page


@pytest.fixture
def bundles(monkeypatch):
    """Count how often the library is put together."""
    made = []
    monkeypatch.setattr(vl_convert, "javascript_bundle", lambda script: made.append(script) or "library")
    return made


def library():
    page.chart_library.cache_clear()
    try:
        return page.chart_library()
    finally:
        page.chart_library.cache_clear()


def test_the_cache_keeps_the_library(bundles, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert [library(), library()] == ["library"] * 2
    assert len(bundles) == 1
    monkeypatch.setattr(vl_convert, "__version__", "another")
    assert library() == "library" and len(bundles) == 2


def test_without_a_cache_it_is_put_together_each_time(bundles, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert [library(), library()] == ["library"] * 2
    assert len(bundles) == 2
