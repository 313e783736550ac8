"""The tables that methods take: which worker gave which answer to which task.

`table` holds what all kinds share: `columns` finds the columns of a table, `encoding` turns ids into codes, and `rows`
validates and sorts them; `codes` holds the arrays and their indexes, `selection` and `merging` derive one table from
another. `answers` (one class per answer) `ratings` (levels of a scale, or numbers) and `comparisons` (the better of two
items) are the kinds, `tables` lists them. `id_table` encodes ids that arrive in parts, `lookalikes` warns of ids that
look the same, `kinds` tells the kind of a column, and `pseudonyms` replaces worker ids.
"""

from crowdwise.answers.answers import MAX_CLASSES, Answers
from crowdwise.answers.codes import Pairs
from crowdwise.answers.comparisons import Comparisons
from crowdwise.answers.ratings import Ratings
from crowdwise.answers.table import AnswerTable
from crowdwise.answers.tables import TABLES, as_answers, as_kind

__all__ = [
    "MAX_CLASSES",
    "TABLES",
    "AnswerTable",
    "Answers",
    "Comparisons",
    "Pairs",
    "Ratings",
    "as_answers",
    "as_kind",
]
