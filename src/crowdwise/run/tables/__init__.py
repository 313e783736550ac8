"""The tables of a run: labels, tasks and workers."""
