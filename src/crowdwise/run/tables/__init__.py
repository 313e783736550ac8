"""The tables of a run: labels, workers and tasks."""
