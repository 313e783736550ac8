"""The design columns of a gold file: how its tasks were drawn, written by `plan_gold` and read back with the labels.

    task, label      a task and its known label; empty until somebody labels it
    round            number of the draw; empty or 0: drawn uniformly from all tasks
    stratum          part of the tasks it was drawn from, uniformly
    stratum_tasks    number of tasks in that part, without those that were gold before
    probability      inclusion probability; used only if stratum_tasks is missing

The probability of a stratum is the number of its labels that are known divided by `stratum_tasks`, so that a file of
which some rows are labelled can be used. That assumes that rows were left out regardless of their labels, for example
those at the end of the file. A stratum with fewer than two labels joins its neighbour of the same round.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.answers import Answers
from crowdwise.errors import GoldError
from crowdwise.trust.gold_sample import Array, GoldSample, Round, sample_of_rounds, uniform_sample

DESIGN = ("round", "stratum", "stratum_tasks", "probability")


def has_design(table: pa.Table | None) -> bool:
    """Return whether a table of gold labels says how its tasks were drawn."""
    return table is not None and any(
        name in table.column_names and table.column(name).null_count < table.num_rows
        for name in ("stratum_tasks", "probability")
    )


def gold_table(answers: Answers, gold: Array, design: pa.Table | None) -> pa.Table:
    """Return a gold file: task, label and the design columns.

    Parameters
    ----------
    answers : Answers
    gold : (tasks,) int array
        Codes of known labels, -1 unknown.
    design : pyarrow.Table or None
        How their tasks were drawn, as described above. Rows without a label are kept, as a round is whole with them.

    Examples
    --------
    >>> from crowdwise import Answers
    >>> answers = Answers.from_arrays([7, 7, 8], ["a", "b", "a"], ["no", "yes", "no"])
    >>> gold_table(answers, np.array([-1, 1]), None).select(["task", "label", "round"]).to_pylist()
    [{'task': 8, 'label': 'yes', 'round': None}]
    """
    codes = np.flatnonzero(gold >= 0)
    kinds = {name: pa.float64() if name == "probability" else pa.int64() for name in DESIGN}
    task = answers.task_ids.take(pa.array(codes))
    if design is not None:
        listed = design.column("task").cast(answers.task_ids.type).combine_chunks()
        task = pc.unique(pa.concat_arrays([task, listed]))
    place = pc.index_in(task, answers.task_ids).fill_null(-1).to_numpy()
    code = np.where(place >= 0, gold[place], -1)
    columns = {"task": task, "label": answers.class_ids.take(pa.array(code, mask=code < 0))}
    for name, kind in kinds.items():
        if design is not None and name in design.column_names:
            columns[name] = design.column(name).take(pc.index_in(task, listed)).cast(kind)
        else:
            columns[name] = pa.nulls(len(task), kind)
    return pa.table(columns)


def design_sample(answers: Answers, rows: Array, table: pa.Table | None) -> GoldSample:
    """Return how the gold tasks were drawn.

    Parameters
    ----------
    answers : Answers
    rows : (gold,) int array
        The tasks with gold labels, as codes.
    table : pyarrow.Table or None
        Has a column `task` and those described above. Tasks without a row, and all tasks if it is None, were drawn
        uniformly.

    Examples
    --------
    >>> from crowdwise import simulate
    >>> answers = simulate.simulate(100, n_workers=5, n_classes=2, answers_per_task=3)
    >>> drawn = {"task": [3, 5, 8, 9], "round": [1] * 4, "stratum": [1, 1, 2, 2], "stratum_tasks": [80, 80, 20, 20]}
    >>> design_sample(answers, np.array([3, 5, 8, 9]), pa.table(drawn)).weight.tolist()
    [0.4, 0.4, 0.1, 0.1]
    """
    if table is None or not has_design(table):
        return uniform_sample(len(rows), answers.n_tasks)
    place = pc.index_in(table.column("task").cast(answers.task_ids.type), answers.task_ids)
    place = place.combine_chunks() if isinstance(place, pa.ChunkedArray) else place
    line_of = np.full(answers.n_tasks, -1)
    task = place.fill_null(-1).to_numpy()  # (lines,), -1: not a task of these answers
    line_of[task[task >= 0]] = np.flatnonzero(task >= 0)
    line = line_of[rows]  # (gold,), -1 without a line
    number, stratum, size, chance = (_numbers(table, name) for name in DESIGN)  # (lines,)
    drawn_by = np.nan_to_num(np.where(line >= 0, number[line], 0.0))  # (gold,)
    rounds, n_before = [], 0
    for which in np.unique(np.concatenate([drawn_by, np.nan_to_num(number)])):
        mine = np.flatnonzero(drawn_by == which)
        if not len(mine):
            continue
        if which == 0:
            left = answers.n_tasks - n_before
            rounds.append(Round(mine, np.full(len(mine), len(mine) / left), np.zeros(len(mine), np.int64), left))
        else:
            lines = np.flatnonzero(np.nan_to_num(number) == which)
            rounds.append(_round(mine, line[mine], lines, stratum, size, chance))
        n_before += len(mine)
    return sample_of_rounds(rounds, answers.n_tasks)


def _round(mine: Array, labelled: Array, lines: Array, stratum: Array, size: Array, chance: Array) -> Round:
    """Return one round: gold tasks `mine`, their lines, and all lines of the round, labelled or not."""
    if np.isnan(size[lines]).any():
        probability = chance[labelled]
        if not ((probability > 0) & (probability <= 1)).all():
            message = "the gold file has rows without stratum_tasks and without a probability from above 0 to 1."
            raise GoldError(message)
        return Round(mine, probability, np.zeros(len(mine), np.int64), float((1 / probability).sum()))
    names, first = np.unique(np.nan_to_num(stratum[lines]), return_index=True)
    n_tasks = size[lines][first]  # (strata,)
    at = np.searchsorted(names, np.nan_to_num(stratum[labelled]))  # (gold of the round,)
    drawn = np.bincount(at, minlength=len(names))
    group = np.arange(len(names))  # strata that are too small join the next one, the last ones the one before
    for h in range(len(names)):
        together = group == group[h]
        if drawn[together].sum() < min(2, n_tasks[together].sum()) and len(np.unique(group)) > 1:
            later = group[group > group[h]]
            group[together] = later.min() if len(later) else group[group < group[h]].max()
    _, group = np.unique(group, return_inverse=True)
    n_gold, total = np.bincount(group, drawn), np.bincount(group, n_tasks)
    if (n_gold > total).any() or (total <= 0).any():
        message = "the gold file has strata with more labels than stratum_tasks. Do not edit the columns of the design."
        raise GoldError(message)
    return Round(mine, (n_gold / total)[group[at]], group[at], float(total.sum()))


def _numbers(table: pa.Table, name: str) -> Array:
    """Return a column of the design as numbers, NaN if missing."""
    if name not in table.column_names:
        return np.full(table.num_rows, np.nan)
    column: Any = table.column(name)
    try:
        return column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        message = f"the column {name!r} of the gold file has cells that are not numbers."
        raise GoldError(message) from None
