"""Answers: who said what about which task. The one data structure every method takes.

The way in: `columns` finds the columns, `encoding` turns ids into codes, `rows` checks and sorts them, `joining` puts
sets of answers together, and `answers` is what comes out: its numbers are in `codes`, its parts in `parts`.
"""

from crowdwise.answers.answers import MAX_CLASSES, Answers
from crowdwise.answers.codes import Pairs

__all__ = ["MAX_CLASSES", "Answers", "Pairs"]
