"""All experiments by name."""

from __future__ import annotations

from difflib import get_close_matches

from crowdwise.errors import ParameterError
from reproduction.experiments import Experiment
from reproduction.papers import crowding, dasc, difficulty, digits, iced, joint, waum

PAPERS = (dasc, crowding, waum, iced, difficulty, joint, digits)
EXPERIMENTS = {experiment.name: experiment for paper in PAPERS for experiment in paper.EXPERIMENTS}
FAMILIES = {experiment.family.name: experiment.family for experiment in EXPERIMENTS.values()}


def find(names: list[str]) -> list[Experiment]:
    """Experiments by name; `all` is every one."""
    if "all" in names:
        return list(EXPERIMENTS.values())
    for name in names:
        if name not in EXPERIMENTS:
            near = get_close_matches(name, EXPERIMENTS, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are all, {', '.join(EXPERIMENTS)}."
            message = f"there is no experiment {name!r}: {hint}"
            raise ParameterError(message)
    return [EXPERIMENTS[name] for name in dict.fromkeys(names)]
