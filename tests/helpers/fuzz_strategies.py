"""Hypothesis strategies for documents, which shrink on failure."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from tests.helpers.fuzz_documents import INTEGERS, TEXTS, Document, Row, document
from tests.helpers.fuzz_targets import damaged

# Text that a file can contain: no lone surrogates. `read` would remove a leading apostrophe, which `write` adds.
_text = st.one_of(
    st.sampled_from(TEXTS), st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)
).filter(lambda text: not text.startswith("'") and text not in ("True", "False"))
_integer = st.one_of(st.sampled_from(INTEGERS), st.integers(-(2**63), 2**63 - 1))


def _looks_like_a_number(text: str) -> bool:
    return re.fullmatch(r"-?[0-9]+(\.0*)?", text) is not None and text not in TEXTS


@st.composite
def rows(draw: st.DrawFn) -> list[Row]:
    """Draw answers, at most one per task and worker; ids of a role are all text (not digits) or all integers."""
    kinds = [
        draw(st.sampled_from([_text.filter(lambda text: not _looks_like_a_number(text)), _integer])) for _ in range(3)
    ]
    found = draw(st.lists(st.tuples(*kinds), min_size=1, max_size=6, unique_by=lambda row: row[:2]))
    return list(found)


def documents(form: str) -> st.SearchStrategy[Document]:
    """Return a strategy for well-formed files of a format, with their answers."""
    return st.builds(document, st.just(form), rows(), st.randoms(use_true_random=False))


def damaged_documents(form: str) -> st.SearchStrategy[Document]:
    """Return a strategy for damaged files of a format."""
    return st.builds(damaged, st.just(form), st.randoms(use_true_random=False))


def fixed_settings(cases: int) -> Callable[[Any], Any]:
    """Return settings for a fixed number of deterministic cases without a deadline."""
    return settings(
        max_examples=cases, deadline=None, database=None, suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
    )  # fmt: skip
