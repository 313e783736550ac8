"""The steps of a run, one file each; `run.pipeline` calls them in order."""
