"""What `crowdwise panel` prints, and the same in plain types for JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from crowdwise.cli.screen import fields, note, percent, say, table

if TYPE_CHECKING:
    from crowdwise.answers import Answers
    from crowdwise.trust import IntervalEstimate, Panel, Removal

MAX_SHOWN = 50  # workers that are printed
MAX_PAIRS, MIN_EXCESS, LEVEL = 5, 0.1, 0.05  # pairs outside families that are printed
MAX_NAMES = 6  # workers of a family that are printed


def summary(found: Panel, answers: Answers) -> dict[str, Any]:
    """Return everything in plain types."""
    estimates, errors = found.estimates, found.dependence
    names = {each.worker: each.family for each in found.members}
    return {
        "gold": found.n_gold,
        "accuracy_of_the_vote": None if estimates is None else interval(estimates.accuracy),
        "answers_per_task": answers.n_answers / max(answers.n_tasks, 1),
        "effective_votes": None if errors is None else _mean_votes(found, answers),
        "correlation_of_errors": None if errors is None else errors.background_rho,
        "families": [] if errors is None else [
            {"name": names[family.workers.tolist()[0]], "workers": family.workers.tolist(),
             "correlation_of_errors": family.rho}
            for family in errors.families
        ],
        "ambiguous_families": None if errors is None else errors.ambiguous,
        "pairs": suspicious_pairs(found),
        "members": found.to_arrow().to_pylist(),
        "shares": [
            {"class": name, "vote": share, "corrected": None if estimates is None else interval(estimates.shares[name])}
            for name, share in found.vote_shares.items()
        ],
        "droppable": None if found.droppable is None else removal(found.droppable),
        "tolerance": found.tolerance,
        "tests": [
            {"worker": each.candidate, "may_replace": each.passed, "winning_rate": each.winning_rate,
             "advantage": each.advantage, "epsilon": each.epsilon,
             "people": [vars(person) for person in each.comparisons]}
            for each in found.tests
        ],
        "notes": found.notes,
    }  # fmt: skip


def interval(part: IntervalEstimate) -> dict[str, float]:
    """Return an estimate in plain types."""
    return {"value": part.value, "low": part.low, "high": part.high, "n_gold": part.n_gold}


def removal(part: Removal) -> dict[str, Any]:
    """Return what happens without some workers, in plain types."""
    gain = None if part.gain is None else part.gain.value
    return {
        "workers": list(part.workers), "changed": part.changed, "effective_votes": part.effective_votes, "gain": gain,
        "low": part.low, "high": part.high,
    }  # fmt: skip


def suspicious_pairs(found: Panel) -> list[dict[str, Any]]:
    """Return the pairs outside families that share significantly many mistakes, the most significant first."""
    from scipy.stats import norm

    if found.dependence is None:
        return []
    rows = found.dependence.pair_table()
    limit = float(norm.isf(LEVEL / max(rows.num_rows, 1)))
    listed = (row for row in rows.to_pylist() if not row["family"])
    return [row for row in listed if row["z"] > limit and row["excess"] >= MIN_EXCESS][:MAX_PAIRS]


def _mean_votes(found: Panel, answers: Answers) -> float:
    import numpy as np

    assert found.dependence is not None
    return float(found.dependence.effective_votes[np.diff(answers.task_starts) > 0].mean())


def show(output: Mapping[str, Any]) -> None:
    """Print the panel: sizes, shared mistakes, workers, class shares, tests, whom to drop."""
    vote, gold = output["accuracy_of_the_vote"], output["gold"]
    lines = [
        ("panel", f"{output['workers']:,} workers, {output['answers']:,} answers to {output['tasks']:,} tasks, "
                  f"{len(output['shares'])} classes"),
        *(("dropped", f"{count:,} {why}") for why, count in output["removed"].items()),
        ("gold", f"{gold:,} tasks" if gold else "none"),
    ]  # fmt: skip
    if output["effective_votes"] is not None:
        lines.append(
            ("votes", f"{output['answers_per_task']:.1f} answers per task are worth about "
                      f"{output['effective_votes']:.1f} independent ones")
        )  # fmt: skip
    if vote is not None:
        lines.append(("vote", f"{percent(vote['value'])} of its labels are right ({_range(vote)})"))
    fields([*lines, *((f"{what} in", path) for what, path in output["written"].items())])
    say()
    _show_workers(output)
    _show_shares(output)
    _show_mistakes(output)
    _show_tests(output)
    _show_drop(output)
    for sentence in output["notes"]:
        note(sentence)
    if vote is None:
        note(
            "These figures come from the answers only, which cannot show the mistakes that most workers share. "
            "`crowdwise next FILE --gold 100 --out gold.csv` chooses tasks that a person should label; then add "
            "--gold gold.csv."
        )
    else:
        note("Intervals assume that gold tasks were drawn at random, or by `crowdwise next --gold`.")


def _show_workers(output: Mapping[str, Any]) -> None:
    rows = output["members"]
    named, abstained = any(row["family"] for row in rows), any(row["abstentions"] for row in rows)
    measured = any(row["accuracy"] is not None for row in rows)
    headers = ["worker", *(["family"] if named else []), "answers", *(["abstained"] if abstained else [])]
    headers += ["agrees", *(["accuracy", "95% interval"] if measured else []), "change"]

    def cells(row: Mapping[str, Any]) -> list[str]:
        shown = [str(row["worker"]), *([row["family"] or ""] if named else []), f"{row['answers']:,}"]
        if abstained:
            shown.append(f"{row['abstentions']:,}")
        shown.append(_percent(row["agreement"]))
        if measured:
            ends = {"low": row["accuracy_low"], "high": row["accuracy_high"]}
            shown += ["", ""] if row["accuracy"] is None else [_percent(row["accuracy"]), _range(ends)]
        return [*shown, _percent(row["changed_without"])]

    table(headers, [cells(row) for row in rows[:MAX_SHOWN]], left=2 if named else 1)
    if len(rows) > MAX_SHOWN:
        say(f"... and {len(rows) - MAX_SHOWN} more; --out FILE writes all.")
    say("agrees: share of answers that the vote of the others names; change: share of labels that change without them.")


def _show_shares(output: Mapping[str, Any]) -> None:
    say()
    measured = output["accuracy_of_the_vote"] is not None
    headers = ["class", "share by vote", *(["corrected by gold", "95% interval"] if measured else [])]
    rows = [
        [str(each["class"]), percent(each["vote"])]
        + ([percent(each["corrected"]["value"]), _range(each["corrected"])] if measured else [])
        for each in output["shares"][:MAX_SHOWN]
    ]
    table(headers, rows)


def _show_mistakes(output: Mapping[str, Any]) -> None:
    if output["effective_votes"] is None:
        return
    say()
    say(f"Correlation of errors among all workers: {output['correlation_of_errors']:.2f} (0 is none, 1 is one vote).")
    for family in output["families"]:
        names, more = family["workers"][:MAX_NAMES], len(family["workers"]) - MAX_NAMES
        others = f" and {more} more" if more > 0 else ""
        rho = family["correlation_of_errors"]
        say(f"Family {family['name']} (correlation {rho:.2f}): {', '.join(map(str, names))}{others}.")
    for pair in output["pairs"]:
        beyond = f"correlation {pair['excess']:.2f} beyond what all share"
        say(f"{pair['worker']} and {pair['other']} share mistakes ({beyond}).")
    if output["ambiguous_families"]:
        say("Some workers err together, but the answers do not show which. Name the families with --families.")
    elif not output["families"] and not output["pairs"]:
        say("Nobody has more mistakes in common than the others.")


def _show_tests(output: Mapping[str, Any]) -> None:
    if not output["tests"]:
        return
    say()
    rows = [
        [str(each["worker"]), "yes" if each["may_replace"] else "not shown",
         f"{sum(person['wins'] for person in each['people'])} of {len(each['people'])}", f"{each['advantage']:.2f}"]
        for each in output["tests"]
    ]  # fmt: skip
    table([f"may replace a person (epsilon {output['tests'][0]['epsilon']:g})", "", "wins against", "advantage"], rows)


def _show_drop(output: Mapping[str, Any]) -> None:
    found, tolerance = output["droppable"], percent(output["tolerance"])
    say()
    if output["members"][0]["changed_without"] is None:
        return
    if found is None:
        say(f"Nobody can be dropped with certainty that the labels lose at most {tolerance} accuracy.")
        return
    names = ", ".join(map(str, found["workers"]))
    if found["gain"] is None:
        change = f"at most {percent(found['changed'])}, known from the answers only"
    else:
        change = f"{100 * found['low']:+.1f} to {100 * found['high']:+.1f} points (95% interval)"
    say(
        f"Can be dropped together: {names}. Without them {percent(found['changed'])} of the labels change, the "
        f"accuracy changes by {change}, and {found['effective_votes']:.1f} independent votes per task remain."
    )


def _percent(value: float | None) -> str:
    return "" if value is None else percent(value)


def _range(part: Mapping[str, float]) -> str:
    return f"{percent(part['low'])} to {percent(part['high'])}"
