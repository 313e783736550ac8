"""All experiments by name."""

from __future__ import annotations

from difflib import get_close_matches

from crowdwise.errors import ParameterError
from reproduction.cells import Cell
from reproduction.experiments import Experiment
from reproduction.papers import crowding, dasc, difficulty, difficulty_cnn, digits, iced, joint, waum

PAPERS = (dasc, crowding, waum, iced, difficulty, difficulty_cnn, joint, digits)
EXPERIMENTS = {experiment.name: experiment for paper in PAPERS for experiment in paper.EXPERIMENTS}
FAMILIES = {experiment.family.name: experiment.family for experiment in EXPERIMENTS.values()}


def find(names: list[str]) -> list[Experiment]:
    """Return experiments by name; `all` is every one."""
    if "all" in names:
        return list(EXPERIMENTS.values())
    for name in names:
        if name not in EXPERIMENTS:
            near = get_close_matches(name, EXPERIMENTS, 1)
            hint = f"Did you mean {near[0]}?" if near else f"Choose from all, {', '.join(EXPERIMENTS)}."
            message = f"no experiment named {name!r}. {hint}"
            raise ParameterError(message)
    return [EXPERIMENTS[name] for name in dict.fromkeys(names)]


def figures_shown(cell: Cell) -> set[str]:
    """Return the names of the figures of a cell that some experiment shows; only these are stored."""
    return {
        name
        for experiment in EXPERIMENTS.values()
        if experiment.family.name == cell.family
        and cell.method in (*experiment.methods, experiment.ceiling)
        and cell.problem in experiment.problems
        for name in experiment.figures_shown()
    }
