"""The tables and figures of five papers, computed with Crowdwise: `python -m reproduction NAME`.

    papers/       the methods and experiments of each paper, and of our own method (joint)
    crowds/       the simulated crowds of the papers
    baselines/    methods that only the papers need
    problems      named data sets as the papers use them: features, answers, truth, test tasks
    settings      how networks are trained on each data set
    cells         one method on one problem for some seeds: the unit that is computed and stored
    measurement   fits a model, evaluates it during training, and returns the figures of a cell
    store         finished cells, in one CSV file per family of methods
    runner        computes the missing cells in parallel processes
    experiments   a table or a figure: methods x problems, published numbers; its lines, from finished cells
    standings     mean ranks, shares of the noise gap, and differences with their standard errors
    formatting    numbers, times, a figure as a table
    figures       an experiment as SVG
    catalogue     all experiments by name
    pages         docs/results.md and docs/results/*.md from the finished cells and the texts in notes/

Cells refer to their methods by name only, so that they can be sent to a process and stored in a file.
"""

from reproduction.catalogue import EXPERIMENTS, find
from reproduction.experiments import Experiment, lines
from reproduction.runner import run
from reproduction.store import Store

__all__ = ["EXPERIMENTS", "Experiment", "Store", "find", "lines", "run"]
