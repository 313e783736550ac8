"""What a worker is told, in plain and kind words fit to be sent as they are."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from html import escape
from typing import Any

UNSURE = 0.4  # width of the interval of quality beyond which too little is known of a worker
MIXED_UP = 0.5  # at most so many right, and one class called another more often than that
SHOWN = 30  # letters of a task's text in a sentence


@dataclass(frozen=True)
class Example:
    """A task to look at again: the label it is believed to have, and how sure that is."""

    task: Any
    text: str | None
    label: Any
    confidence: float


@dataclass(frozen=True)
class Confusion:
    """Tasks of one class that the worker calls another, more often than the crowd does."""

    truth: Any
    said: Any
    count: float
    of: float
    share: float
    crowd_share: float
    examples: tuple[Example, ...]

    def __str__(self) -> str:
        of = max(round(self.of), 1)
        text = (
            f"You called {min(round(self.count), of)} of {of} {_tasks(of)} '{self.said}' that are most likely "
            f"'{self.truth}'; others do so in {_percent(self.crowd_share)}."
        )
        if not self.examples:
            return text
        return f"{text} Look at {_tasks(len(self.examples))} {listed([_name(each) for each in self.examples])} again."


@dataclass(frozen=True)
class Strength:
    """A class the worker recognises at least as well as the crowd."""

    label: Any
    of: float
    share: float
    crowd_share: float


@dataclass(frozen=True)
class Feedback:
    """What to tell one worker. As text, it can be sent as it is.

    Attributes
    ----------
    worker : id
    answers : int
    quality, quality_low, quality_high : float or None
        Share of right answers and its interval, as `run.tables.workers` says.
    crowd_quality : float or None
        That of all workers together.
    confusions : tuple of Confusion
        Most answers beyond the crowd's first.
    good_at : tuple of Strength
    spammer : bool
    """

    worker: Any
    answers: int
    quality: float | None
    quality_low: float
    quality_high: float
    crowd_quality: float | None
    confusions: tuple[Confusion, ...]
    good_at: tuple[Strength, ...]
    spammer: bool

    @property
    def words(self) -> list[str]:
        """The feedback in sentences."""
        return [self._opening(), *map(str, self.confusions), *self._closing()]

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain values, with `words`."""
        plain = asdict(self)
        for each in plain["confusions"]:
            each["examples"] = list(each["examples"])
        lists = {name: list(plain[name]) for name in ("confusions", "good_at")}
        return plain | lists | {"words": self.words}

    def __str__(self) -> str:
        return "\n".join([f"Worker {self.worker}", *self.words])

    def _repr_html_(self) -> str:
        words = "".join(f"<li>{escape(text)}</li>" for text in self.words)
        return f"<p><b>Worker {escape(str(self.worker))}</b></p><ul>{words}</ul>"

    def _opening(self) -> str:
        if self.quality is None or self.crowd_quality is None:
            return "You have not answered any task yet."
        start = f"You answered {self.answers:,} {_tasks(self.answers)}."
        if self.quality_high - self.quality_low > UNSURE:
            return f"{start} Too few of them were answered by others as well to say how many you got right."
        return (
            f"{start} {_about(self.quality)} of your answers are right ({_percent(self.quality_low)} to "
            f"{_percent(self.quality_high)}); of all workers' answers, {_percent(self.crowd_quality)} are."
        )

    def _closing(self) -> list[str]:
        out = []
        if self.spammer:
            out.append(
                "What you answer does not seem to depend on the task. Please read the instructions again, and ask if "
                "anything is unclear."
            )
        elif self.quality_high < MIXED_UP and any(each.share > MIXED_UP for each in self.confusions):
            out.append("Did you mix up the labels? You differ from others in the same way again and again.")
        elif self.answers and not self.confusions:
            out.append("Nothing that you confuse stands out from what others do.")
        if self.good_at:
            names = listed([f"'{each.label}'" for each in self.good_at])
            out.append(f"You recognise {names} at least as well as others do. Thank you!")
        return out


def _name(example: Example) -> str:
    if not example.text:
        return str(example.task)
    text = example.text if len(example.text) <= SHOWN else f"{example.text[: SHOWN - 3]}..."
    return f"{example.task} ({text})"


def _percent(share: float) -> str:
    """A share in words that never round to none or all.

    >>> _percent(0.083), _percent(0.001), _percent(0.999)
    ('8 %', 'under 1 %', 'over 99 %')
    """
    if share < 0.01:
        return "under 1 %"
    return "over 99 %" if share > 0.99 else f"{share:.0%}".replace("%", " %")


def _about(share: float) -> str:
    """A share at the start of a sentence.

    >>> _about(0.083), _about(0.999)
    ('About 8 %', 'Over 99 %')
    """
    text = _percent(share)
    return f"About {text}" if text[0].isdigit() else text.capitalize()


def _tasks(n: int) -> str:
    return "task" if n == 1 else "tasks"


def listed(names: list[str]) -> str:
    """Names with commas and an "and".

    >>> listed(["17", "4", "90"])
    '17, 4 and 90'
    """
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
