"""List the benchmarks, or run one with its own options: `python -m benchmarks truth --quick`."""

from __future__ import annotations

import importlib
import subprocess
import sys
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
USAGE = """Usage: python -m benchmarks NAME [OPTIONS]     (NAME --help lists the options of one)
"""


class Environment(NamedTuple):
    """A virtual environment of its own, for requirements that clash with ours."""

    folder: str
    requirements: str  # a file in benchmarks
    first: tuple[str, ...] = ()  # installed before them
    then: tuple[str, ...] = ()  # installed with them

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return ROOT / self.folder / "bin" / "python"

    def prepare(self) -> None:
        """Create the environment, or update it after a change of its requirements."""
        ready, requirements = ROOT / self.folder / "ready", ROOT / "benchmarks" / self.requirements
        if ready.exists() and ready.stat().st_mtime >= requirements.stat().st_mtime:
            return
        print(f"Creating {self.folder} from benchmarks/{self.requirements}. This takes several minutes.", flush=True)
        if not self.python.exists():
            subprocess.run([sys.executable, "-m", "venv", str(ROOT / self.folder)], check=True)
        self._install("--upgrade", "pip")
        if self.first:
            self._install("-c", "constraints.txt", *self.first)
        self._install("-c", "constraints.txt", "-r", str(requirements), *self.then)
        ready.touch()

    def _install(self, *words: str) -> None:
        pip = [str(self.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *words], cwd=ROOT, check=True)


PEERS = Environment(".venv-peers", "peers.txt", first=("torch",))
CROWDKIT = Environment(".venv-crowdkit", "crowdkit_suite.txt", then=("-e", ".[pandas]"))
FUZZ = Environment(".venv-fuzz", "fuzz.txt", then=("-e", ".[pandas,polars]"))


class Benchmark(NamedTuple):
    """A benchmark by its module, with one line on what it measures."""

    module: str
    what: str
    needs: Environment | None = None
    inside: bool = False  # whether it runs inside that environment, rather than starting processes there


BENCHMARKS = {
    "truth": Benchmark("truth_speed", "speed and memory of truth inference, compared with other libraries", PEERS),
    "truth-accuracy": Benchmark("truth_accuracy", "truth methods on real data sets with known truth"),
    "trust": Benchmark("trust_calibrator", "honesty of calibrated confidence on crowds left out of its training"),
    "learn": Benchmark("learn_speed", "seconds per epoch, compared with the bare network and other libraries", PEERS),
    "learn-accuracy": Benchmark("learn_accuracy", "every learner on LabelMe and Music, five seeds"),
    "choose": Benchmark("choose_agreement", "how well choosing a method without ground truth agrees with accuracy"),
    "choose-criteria": Benchmark("choose_criteria", "which criterion chooses best without ground truth"),
    "acquire": Benchmark("acquire_replay", "accuracy per answer bought, for each strategy, on real answers"),
    "simulated": Benchmark("systems_simulated", "self-training, artificial tasks and ambiguity on simulated crowds"),
    "joint-top": Benchmark("joint_on_top", "other systems on top of JointEM, compared with plain JointEM"),
    "joint-scale": Benchmark("joint_scale", "time and memory of JointEM with 10,000 to 100,000 tasks"),
    "joint-crowds": Benchmark("joint_crowds", "where JointEM fails: simulated crowds over small data sets"),
    "joint-labels": Benchmark("joint_labels", "labels of JointEM and of Dawid-Skene, by answers and features"),
    "iced-defaults": Benchmark("iced_defaults", "ICED and its baselines with their defaults, paired over seeds"),
    "small-data": Benchmark("small_data", "network learners with their defaults on small data, and the vote"),
    "frameworks": Benchmark("frameworks", "DASC, WAUM and CrowdInG by name, each against its base"),
    "systems-scale": Benchmark("systems_scale", "time and memory of self-training and acquisition on large crowds"),
    "calibration": Benchmark("calibration", "calibration error of labels before and after calibration"),
    "dependence": Benchmark("dependence", "families of workers who err together: found, and nobody accused"),
    "worker-flags": Benchmark("worker_flags", "workers who answer at random or always the same, or copy"),
    "worker-quality": Benchmark("worker_quality", "how often intervals of worker quality hold the truth"),
    "first-second": Benchmark(
        "first_second", "time and memory of a job of nine answers, compared with crowd-kit", PEERS
    ),
    "comparisons": Benchmark("comparisons", "rankings from comparisons, beside choix and crowd-kit", PEERS),
    "scale": Benchmark("scale", "10^6 to 10^8 answers, from Parquet to labels", PEERS),
    "spark": Benchmark("spark_overhead", "cost of an iteration on Spark, compared with the local kernels"),
    "parallel": Benchmark("parallel_speed", "an epoch of training in one process and in two"),
    "kill": Benchmark("killing", "commands killed at random moments reach the same results when rerun"),
    "fuzz": Benchmark("fuzzing", "valid, damaged and hostile files through every reader"),
    "fuzz-guided": Benchmark("fuzzing_guided", "the same for text formats, guided by coverage (atheris)", FUZZ, True),
    "hostile-line": Benchmark("hostile_line", "files with a single line of a gigabyte"),
    "damage": Benchmark("damaged_files", "damaged and forged models of every kind are rejected"),
    "statistics": Benchmark("statistical_checks", "probabilities and intervals on data drawn from the models"),
    "intervals": Benchmark("intervals", "coverage and width of intervals from gold and answers, over draws of gold"),
    "leaks": Benchmark("leaks", "memory, files and threads over 1,000 calls of every method"),
    "soak": Benchmark("soak", "an hour of reading, fitting, predicting and reporting: memory and handles stay flat"),
    "unchanged": Benchmark("unchanged", "every method gives the stored results: a check for refactorings"),
    "compat": Benchmark("compat_speed", "speed of our drop-in for cleanlab, compared with cleanlab", PEERS),
    "crowdkit-suite": Benchmark("crowdkit_suite", "crowd-kit's own tests, through our drop-in", CROWDKIT, True),
    "kinds": Benchmark("kinds", "ratings: accuracy on real and simulated crowds, intervals, speed"),
    "cost-model": Benchmark("cost_model", "time, memory and traffic as formulas, compared with measurements"),
}


def main(words: list[str]) -> None:
    """Run what the command line asks for."""
    if not words or words[0] in ("-h", "--help"):
        width = max(map(len, BENCHMARKS))
        print(USAGE)
        for name, each in BENCHMARKS.items():
            note = "" if each.needs is None else f" (creates {each.needs.folder})"
            print(f"  {name:<{width}}  {each.what}{note}")
        return
    name, *options = words
    if name not in BENCHMARKS:
        near = get_close_matches(name, BENCHMARKS, 1)
        hint = f"Did you mean {near[0]}?" if near else "Run `python -m benchmarks` for the list."
        sys.exit(f"error: no benchmark named {name!r}. {hint}")
    chosen = BENCHMARKS[name]
    asks_for_help = "-h" in options or "--help" in options
    try:
        if chosen.needs is not None and not asks_for_help:
            chosen.needs.prepare()
        if chosen.inside and chosen.needs is not None and not asks_for_help:
            command = [str(chosen.needs.python), "-m", f"benchmarks.{chosen.module}", *options]
            sys.exit(subprocess.run(command, cwd=ROOT).returncode)
    except subprocess.CalledProcessError as error:
        sys.exit(f"error: this command failed, see above: {' '.join(error.cmd)}")
    sys.argv = [f"python -m benchmarks {name}", *options]
    importlib.import_module(f"benchmarks.{chosen.module}").main()


if __name__ == "__main__":
    main(sys.argv[1:])
