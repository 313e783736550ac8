"""Answers: which worker gave which label to which task. The data structure that every method takes.

`columns` finds the columns of a table, `encoding` turns ids into codes, and `rows` validates and sorts them. `codes`
holds the arrays and their indexes, `selection` and `merging` derive one set of answers from another, and `answers` is
the class that combines them. `id_table` encodes ids that arrive in parts, `lookalikes` warns of ids that look the same,
and `pseudonyms` replaces worker ids.
"""

from crowdwise.answers.answers import MAX_CLASSES, Answers, as_answers
from crowdwise.answers.codes import Pairs

__all__ = ["MAX_CLASSES", "Answers", "Pairs", "as_answers"]
