"""The papers' tables and figures, one command each: `crowdwise bench NAME`.

    problems      named data sets as the papers use them: features, answers, truth, test tasks
    cells         one method on one problem for some seeds: the unit that is computed, kept and never repeated
    measuring     fits a model, looks at it after each epoch, and returns the figures of a cell
    store         finished cells, in a JSON file a family of methods
    running       the cells that are missing, in parallel processes
    experiments   a table or a figure: methods x problems, what the paper says; its lines, from finished cells
    drawing       a figure of an experiment
    dasc, crowding, waum, iced, difficulty      the methods and the experiments of each paper
    joint         our own method beside all others
    standings     mean ranks, shares of the noise gap, and who is below whom
    showing       numbers, times, a figure as a table
    saving        CSV, JSON and the figure
    catalogue     all experiments by name

Cells know their methods by name only, so that they can be sent to a process and kept in a file.
"""

from reproduction.catalogue import EXPERIMENTS, find
from reproduction.experiments import Experiment, lines
from reproduction.runner import run
from reproduction.store import Store

__all__ = ["EXPERIMENTS", "Experiment", "Store", "find", "lines", "run"]
