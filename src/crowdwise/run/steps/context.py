"""What every step of a run works on."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from crowdwise.choose.candidates import Candidates
from crowdwise.run.inputs import RunInput, RunOptions
from crowdwise.run.progress import RunProgress


@dataclass(frozen=True)
class RunContext:
    """The data, options and candidates of a run, its folder and its notes."""

    data: RunInput
    options: RunOptions  # with all defaults filled in
    candidates: Candidates  # the methods to compare
    progress: RunProgress  # the folder, and what is already done in it
    notes: list[str] = field(default_factory=list)  # steps add to it

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return self.progress.folder

    @property
    def n_jobs(self) -> int:
        """Number of parallel fits."""
        return self.options.n_jobs or 1
