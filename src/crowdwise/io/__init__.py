r"""Reading answers from files of many formats, and writing them.

>>> import tempfile, pathlib
>>> file = pathlib.Path(tempfile.mkdtemp()) / "answers.csv"
>>> _ = file.write_text("item,annotator,label\n001,ann,cat\n001,bob,dog\n002,ann,cat\n")
>>> answers = read(file)
>>> answers, answers.tasks.tolist()
(Answers(2 tasks, 2 workers, 3 answers, 2 classes), ['001', '002'])
"""

from __future__ import annotations

from crowdwise.io.families import read_families
from crowdwise.io.format_table import FORMATS, Format
from crowdwise.io.reader import read, read_truth
from crowdwise.io.side_columns import SideColumns, read_side_columns, read_with_side_columns
from crowdwise.io.writer import check_target, write

__all__ = [
    "FORMATS",
    "Format",
    "SideColumns",
    "check_target",
    "read",
    "read_families",
    "read_side_columns",
    "read_truth",
    "read_with_side_columns",
    "write",
]
