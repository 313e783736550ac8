"""Quotation marks: no row disappears into a cell."""

from __future__ import annotations

import csv
import io
from random import Random

import pytest

from crowdwise import errors
from crowdwise.io import quoting, read, read_truth, read_with_side_columns
from tests.helpers.reading import assert_read_fails

HEADER = "task,worker,label\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('1,a,"x\n2,b,y\n', "opens a cell at line 2 is never closed"),
        ('1,a,x\n2,b,"y', "opens a cell at line 3 is never closed"),
        ('1,a,"x\n2,b,y"\n', "line 2: a cell of column 'label' contains a line break"),
        ('1,a,"x\n2,b,"y\n', "line 3: text follows a closing quotation mark"),
        ('1,a,x\n2,"b",y"\n3,"c"d,z\n', "line 4: text follows a closing quotation mark"),
        ('1,a,x\r\n"2\r\n",b,y\r\n', "line 3: a cell of column 'task' contains a line break"),
    ],
)
@pytest.mark.parametrize("separator", [",", "\t"])
def test_stray_quotation_marks_are_errors_that_name_the_line(put, content, message, separator):
    name = "a.csv" if separator == "," else "a.tsv"
    assert_read_fails(errors.FormatError, message, put(name, (HEADER + content).replace(",", separator)))


def test_a_stray_mark_among_many_answers(put):
    lines = [f"{task},{worker},{'cat' if task % 3 else 'dog'}" for task in range(100) for worker in "abcd"]
    lines[100] = lines[100].replace(",dog", ',"dog').replace(",cat", ',"cat')
    assert_read_fails(errors.FormatError, "line 102 is never closed", put("a.csv", HEADER + "\n".join(lines)))


@pytest.mark.filterwarnings("ignore::crowdwise.errors.LookalikeWarning")
def test_every_stray_mark_is_an_error_or_leaves_all_rows(put):
    """Marks are added at random to quoted and unquoted tables; a table that is read has as many rows as lines."""
    refused = 0
    for number in range(300):
        draw = Random(number)
        text = io.StringIO()
        rows = [[draw.choice(("1", "22", "3,3", 'q"q')), f"w{i}", draw.choice(("x", "y y"))] for i in range(12)]
        csv.writer(text, quoting=draw.choice((csv.QUOTE_ALL, csv.QUOTE_MINIMAL)), lineterminator="\n").writerows(rows)
        content = text.getvalue()
        for _ in range(draw.randint(1, 2)):
            at = draw.randrange(len(content))
            content = content[:at] + '"' + content[at:]
        try:
            answers = read(put("a.csv", HEADER + content), duplicates="first", max_classes=50)
        except errors.CrowdwiseError:
            refused += 1
        else:
            assert answers.n_answers == 12
    assert 100 < refused < 300  # a mark inside an unquoted cell is an ordinary character


def test_line_breaks_can_be_accepted(put, rows):
    file = put("a.csv", HEADER + '1,a,"two\nlines"\n2,b,y\n')
    assert rows(read(file, multiline=True)) == [(1, "a", "two\nlines"), (2, "b", "y")]
    known = put("truth.csv", 'task,label\n1,"two\nlines"\n')
    assert read_truth(known, multiline=True).num_rows == 1
    assert_read_fails(errors.FormatError, "column 'label' contains a line break", file)


def test_texts_may_have_lines_but_not_hide_rows(put):
    file = put("a.csv", 'task,worker,label,text\n1,a,x,"two\nlines"\n2,b,y,one\n')
    answers, side = read_with_side_columns(file, text="text")
    assert (answers.n_answers, side.texts.tolist()) == (2, ["two\nlines", "one"])
    assert read(file).n_answers == 2  # the text is not read, but its lines are still part of a cell


@pytest.mark.parametrize("text_column", [1, 3])
@pytest.mark.parametrize("first", ['"nice', '"'])
@pytest.mark.parametrize("end", ["\n", ""])
def test_two_stray_marks_in_a_column_of_comments_hide_no_rows(put, text_column, first, end):
    def table(comments):
        rows = [["task", "worker", "label"], *([str(i), "ab"[i % 2], "xy"[i % 3 % 2]] for i in range(8))]
        for row, comment in zip(rows, ["comment", *comments], strict=True):
            row.insert(text_column, comment)
        return "\n".join(map(",".join, rows)) + end

    stray = table(["ok", "ok", "ok", first, "ok", 'good"', "ok", "ok"])
    assert_read_fails(errors.FormatError, "line 6 is inside a quoted cell that begins in line 5", put("a.csv", stray))
    assert read(put("b.csv", stray), multiline=True).n_answers == 6


def test_lines_of_a_text_may_have_as_many_separators_as_a_row(put):
    text = '"well, yes, but\nno, or, perhaps\nand, so, on"'
    assert read(put("a.csv", f"task,worker,label,text\n1,a,x,{text}\n2,b,y,{text}\n")).n_answers == 2


def test_blocks_end_anywhere(put, rows, monkeypatch):
    content = '\ufefftask,worker,label\r\n\r\n"1","a,b","say ""x"""\r\n2,b,y\r3,"c",z\n\n'
    expected = [(1, "a,b", 'say "x"'), (2, "b", "y"), (3, "c", "z")]
    for size in (4, 5, 7, 64):
        monkeypatch.setattr(quoting, "BLOCK", size)
        assert rows(read(put("a.csv", content))) == expected
        assert rows(read(put("b.csv", content.replace('"', "").replace("a,b", "ab"))))[1:] == expected[1:]
