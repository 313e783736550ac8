"""What a fit costs, as a formula: time, memory and network traffic from answers, workers, classes and iterations.

    python -m benchmarks cost-model     the constants, the check, and 10^10 answers on 100 machines

Constants of one machine come from 10^8 answers (results/scale.json), where matrices and ids do not fit into any cache.
The check uses ten and a hundred times fewer answers, and a hundred classes (results/truth_speed.json). Constants of
Spark come from two sizes on one machine (results/spark.json). Letters:

    A answers, T tasks, W workers, K classes, P pairs of worker and label that occur (at most W x K), I iterations

    processor seconds, one machine      (read + index) x A  +  step x A x K x I  +  write x T
    bytes of memory, one machine        libraries + the larger of  `reading` x A  and
                                        24 A + (16 K + 16) T + 24 K P + the ids
        24 per answer (task, worker, label, pair, and two numbers in the order of pairs), two posteriors per task, three
        tables of P x K numbers: counted in the code, not fitted
    seconds per iteration, Spark        job + step x A x K / cores + bytes / network
                                        joined: another job, and `carry` x A / cores, as parts pass through Java
    bytes per iteration, Spark          broadcast   8 K P to each machine, and (8 K + 8) p back from each part
                                        joined      8 K p to each part, and (8 K + 8) p back
        p, pairs in a part of a answers: P (1 - exp(-a / P)), as if each answer fell on a random pair
    seconds of the intake, Spark        start + intake x A / cores: two shuffles of all rows
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from benchmarks.files import RESULTS, read_results

LIBRARIES = 0.33e9  # bytes of a process that has fitted something small
LIMIT = 50_000_000  # broadcast_limit: numbers in all confusion matrices
Row = dict[str, Any]


class Crowd(NamedTuple):
    """Sizes of the data."""

    answers: float
    tasks: float
    workers: float
    classes: int
    text: float = 0.0  # bytes of a task's id, where it is text

    @property
    def pairs(self) -> float:
        """Expected number of pairs of worker and label that occur, if every answer falls on a random pair."""
        return filled(self.workers * self.classes, self.answers)


class Machine(NamedTuple):
    """Constants: processor seconds, except for `job` and `start`, which are wall-clock seconds."""

    read: float  # per answer
    index: float  # per answer: what a fit does once
    step: float  # per answer, class and iteration
    write: float  # per task
    reading: float  # bytes per answer at the peak of reading
    job: float = math.nan  # per iteration of Spark without work
    joined: float = math.nan  # the same on the joined path
    carry: float = math.nan  # per answer and iteration on the joined path
    start: float = math.nan  # of the intake
    intake: float = math.nan  # per answer


class Cluster(NamedTuple):
    """Sizes of a cluster."""

    machines: int
    cores: int  # of each
    network: float  # bytes per second of each, one way
    parts: int


def filled(places: float, thrown: float) -> float:
    """Return the expected number of places hit by this many random throws.

    >>> round(filled(10, 10), 2)
    6.51
    """
    return -places * math.expm1(-thrown / places)


def seconds(machine: Machine, crowd: Crowd, iterations: int) -> float:
    """Return processor seconds on one machine, from the file to the labels."""
    steps = machine.step * crowd.answers * crowd.classes * iterations
    return (machine.read + machine.index) * crowd.answers + steps + machine.write * crowd.tasks


def memory(machine: Machine, crowd: Crowd) -> float:
    """Return the peak memory in bytes of Dawid-Skene on one machine."""
    k = crowd.classes
    ids = (8 + crowd.text) * crowd.tasks
    fit = 24 * crowd.answers + (16 * k + 16) * crowd.tasks + 24 * k * crowd.pairs + ids
    return LIBRARIES + max(machine.reading * crowd.answers, fit)


def traffic(crowd: Crowd, cluster: Cluster) -> tuple[str, float]:
    """Return how matrices are sent, and the total bytes an iteration sends over the network."""
    k, pairs = crowd.classes, crowd.pairs
    own = filled(pairs, crowd.answers / cluster.parts)
    back = (8 * k + 8) * own * cluster.parts
    if crowd.workers * k * k <= LIMIT:
        return "broadcast", 8 * k * pairs * cluster.machines + back
    return "joined", 8 * k * own * cluster.parts + back


def iteration(machine: Machine, crowd: Crowd, cluster: Cluster) -> float:
    """Return the seconds of an iteration on Spark."""
    way, sent = traffic(crowd, cluster)
    job, carry = (machine.job, 0.0) if way == "broadcast" else (machine.joined, machine.carry)
    work = (machine.step * crowd.classes + carry) * crowd.answers / (cluster.machines * cluster.cores)
    return job + work + sent / (cluster.machines * cluster.network)


def constants(rows: list[Row], spark: list[Row], ids: str) -> Machine:
    """Return constants from measurements at 10^8 answers, and on Spark at two sizes."""
    row = find(rows, "dawid-skene", ids, 10**8)
    assert row is not None
    n, steps = row["answers"], row["iterations"] * row["iteration_cpu_seconds"]
    found = Machine(
        read=row["read_cpu_seconds"] / n,
        index=(row["fit_cpu_seconds"] - steps) / n,
        step=row["iteration_cpu_seconds"] / n / row["classes"],
        write=row["write_cpu_seconds"] / row["tasks"],
        reading=(row["read_peak_bytes"] - LIBRARIES) / n,
    )
    if not spark:
        return found
    few, many = spark[0], spark[-1]
    more = many["answers"] - few["answers"]
    each, moved = (many["intake"] - few["intake"]) / more, (many["joined"] - few["joined"]) / more
    return found._replace(
        job=few["empty"], joined=few["joined"] - moved * few["answers"],
        carry=moved * CORES - found.step * few["classes"],
        start=few["intake"] - each * few["answers"], intake=each * CORES,
    )  # fmt: skip


CORES = 2  # of the machine that was measured


def find(rows: list[Row], case: str, ids: str, answers: int) -> Row | None:
    """Return the row of a measurement, or None."""
    found = (r for r in rows if (r["who"], r["case"], r["ids"], r["answers"]) == ("ours", case, ids, answers))
    return next((row for row in found if "failed" not in row), None)


def line(*cells: object) -> None:
    """Print a row of a table."""
    print("| " + " | ".join(map(str, cells)) + " |")


def check(rows: list[Row], machines: dict[str, Machine]) -> None:
    """Compare the formula with measurements on one machine."""
    line("answers, ids", "CPU s: formula", "measured", "GB: formula", "measured")
    line(*["---"] * 5)
    for ids, machine in machines.items():
        for n in (10**6, 10**7, 10**8):
            row = find(rows, "dawid-skene", ids, n)
            if row is None:
                continue
            crowd = Crowd(n, row["tasks"], row["workers"], row["classes"], 13 if ids == "strings" else 0)
            predicted = seconds(machine, crowd, row["iterations"]), memory(machine, crowd)
            line(f"{n:.0e}, {ids}", f"{predicted[0]:.1f}", f"{row['cpu_seconds']:.1f}", f"{predicted[1] / 1e9:.2f}",
                 f"{row['peak_bytes'] / 1e9:.2f}")  # fmt: skip


def check_classes(machine: Machine) -> None:
    """Compare the formula with 20 iterations of Dawid-Skene on both cores, by classes (`truth`)."""
    line("answers, classes", "20 iterations: formula", "measured")
    line(*["---"] * 3)
    for row in read_results(RESULTS / "truth_speed.json"):
        name, _, classes = row["what"].partition(", K = ")
        if name == "Dawid-Skene EM" and row["answers"] >= 10**6:
            predicted = 20 * machine.step * row["answers"] * int(classes) / CORES
            line(f"{row['answers']:.0e}, {classes}", f"{predicted:.1f} s", f"{row['ours']['seconds']:.1f} s")


def check_spark(spark: list[Row], machine: Machine) -> None:
    """Compare the formula with measurements on `local[2]`, where the network is memory."""
    line("answers on Spark", "s per iteration: formula", "measured", "bytes back per part: formula", "counted")
    line(*["---"] * 5)
    for row in spark:
        crowd = Crowd(row["answers"], row["answers"] / 5, row["workers"], row["classes"])
        cluster = Cluster(1, CORES, math.inf, row["parts"])
        back = (8 * crowd.classes + 8) * filled(crowd.pairs, crowd.answers / row["parts"])
        line(f"{row['answers']:.0e}", f"{iteration(machine, crowd, cluster):.2f} s", f"{row['spark']:.2f} s",
             f"{back / 1e6:.2f} MB", f"{row['bytes_back'] / 1e6:.2f} MB")  # fmt: skip


def predict(machine: Machine) -> None:
    """Predict 10^10 answers on 100 machines of 16 cores and 10 Gbit/s, by crowds and parts."""
    line(
        "workers",
        "parts",
        "matrices",
        "sent per iteration",
        "seconds per iteration",
        "share of network",
        "20 iterations",
    )
    line(*["---"] * 7)
    for workers in (10**5, 10**6, 2 * 10**7):
        for parts in (1600, 10_000):
            crowd = Crowd(1e10, 2e9, workers, 8)
            cluster = Cluster(100, 16, 1.25e9, parts)
            way, sent = traffic(crowd, cluster)
            each = iteration(machine, crowd, cluster)
            share = sent / (cluster.machines * cluster.network) / each
            line(f"{workers:,}", f"{parts:,}", way, f"{sent / 1e9:,.0f} GB", f"{each:.1f}", f"{share:.0%}",
                 f"{20 * each / 60:.1f} min")  # fmt: skip
    crowd = Crowd(1e10, 2e9, 1e5, 8)
    took, gigabytes = machine.start + machine.intake * 1e10 / 1600, memory(machine, crowd) / 1e11
    print(f"\nIntake: {took:.0f} s, from one machine without a network. {gigabytes:,.1f} GB per machine.")


def main() -> None:
    """Print everything as Markdown tables."""
    rows = read_results(RESULTS / "scale.json")["rows"]
    spark = read_results(RESULTS / "spark.json", [])
    known = [ids for ids in ("integers", "strings") if find(rows, "dawid-skene", ids, 10**8)]
    machines = {ids: constants(rows, spark, ids) for ids in known}
    for ids, machine in machines.items():
        print(ids, {name: f"{value:.3g}" for name, value in machine._asdict().items()}, "\n")
    check(rows, machines)
    print()
    check_classes(machines["integers"])
    if spark:
        print()
        check_spark(spark, machines["integers"])
        print()
        predict(machines["integers"])


if __name__ == "__main__":
    main()
