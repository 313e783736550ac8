"""Text for the CSV and JSON readers, generated under guidance of coverage (atheris, libFuzzer): new lines guide it.

    python -m benchmarks fuzz-guided [--cases 50000]     in .venv-fuzz, 50,000 cases per format

Each format runs in a process of its own, with the checks of the tests (tests/helpers/fuzz_targets.py) and some of their
documents to start from. The Python code of crowdwise.io is instrumented. The parsers of Arrow are C++ and are not, so
only the code that runs after them guides the search. The first byte of a case chooses the name of the file.
"""

from __future__ import annotations

import argparse
import json
import pkgutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from random import Random

from benchmarks.files import RESULTS, ROOT, read_results, write_results

TARGET = RESULTS / "fuzzing_guided.json"
NAMES = {
    "csv": ("a.csv", "a.txt", "a"), "tsv": ("a.tsv", "a.tab"), "jsonl": ("a.jsonl", "a.json", "a"), "mturk": ("a.csv",),
    "toloka": ("a.tsv",), "label-studio": ("a.json",), "argilla": ("a.json", "a.jsonl"), "prodigy": ("a.jsonl",),
    "ground-truth": ("a.manifest",), "peerannot": ("a.json",), "matrix": ("a.txt",), "cleanlab": ("a.csv", "a.tsv"),
    "inspect": ("a.json",), "promptfoo": ("a.json", "a.jsonl"), "deepeval": ("a.json",), "lm-eval": ("a.jsonl",),
}  # fmt: skip
SAVE = 500  # cases after which the counts are saved, because libFuzzer exits silently


def fuzz(form: str, cases: int, seed: int, counts: Path, folder: Path) -> None:
    """Check `cases` files of a format. Does not return."""
    import atheris

    import crowdwise.answers.id_table  # compiled by numba, which takes no instrumented code

    with atheris.instrument_imports(include=["crowdwise.io"]):
        import crowdwise.io

        for part in pkgutil.walk_packages(crowdwise.io.__path__, "crowdwise.io."):
            __import__(part.name)
    import warnings

    import pyarrow as pa

    from tests.helpers.fuzz_documents import Document, document, random_answers
    from tests.helpers.fuzz_targets import SECONDS, alarm, judge

    warnings.simplefilter("ignore")
    pa.set_cpu_count(1)
    outcomes: Counter[str] = Counter()

    def check(data: bytes) -> None:
        names = NAMES[form]
        name = names[data[0] % len(names)] if data else names[0]
        how = {} if len(data) > 1 and data[0] >= 128 else {"format": form}
        with alarm(SECONDS):
            outcomes[judge(Document(name, data[1:], how, None), folder)] += 1
        if outcomes.total() % SAVE == 0 or outcomes.total() >= cases:
            counts.write_text(json.dumps(outcomes))

    corpus = folder / "corpus"
    corpus.mkdir()
    for number in range(50):
        draw = Random(number)
        case = document(form, random_answers(draw), draw)
        judge(case, folder)  # compilation on first use must not count as a hang
        if not case.name.endswith(".gz"):
            (corpus / str(number)).write_bytes(bytes([number * 5]) + case.data)
    arguments = [f"-runs={cases}", f"-seed={seed}", "-max_len=1024", "-timeout=120", "-rss_limit_mb=2048",
                 f"-artifact_prefix={folder}/", str(corpus)]  # fmt: skip
    atheris.Setup([sys.argv[0], *arguments], check)
    atheris.Fuzz()


def main() -> None:
    """Run each format in a process of its own and store the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=50_000, help="cases per format")
    parser.add_argument("--only", choices=NAMES, help="one format")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=TARGET)
    parser.add_argument("--one", nargs=2, metavar=("COUNTS", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        fuzz(options.only, options.cases, options.seed, *map(Path, options.one))
    results = read_results(options.out, {})  # also of other formats and seeds
    for form in [options.only] if options.only else NAMES:
        with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
            counts = Path(folder) / "counts.json"
            command = [
                sys.executable,
                "-m",
                "benchmarks.fuzzing_guided",
                "--only",
                form,
                "--cases",
                str(options.cases),
                "--seed",
                str(options.seed),
            ]
            done = subprocess.run([*command, "--one", str(counts), folder], capture_output=True, text=True, cwd=ROOT)
            failed = [line for line in done.stderr.splitlines() if line.startswith(("==", "SUMMARY"))]
            cover = [line for line in done.stderr.splitlines() if " cov: " in line][-1:]
            outcomes = read_results(counts, {})
            results[f"{form}, seed {options.seed}"] = {
                "outcomes": outcomes,
                "exit": done.returncode,
                "failed": failed,
                "covered": cover,
            }
            if done.returncode:
                print(done.stderr[-3000:])
                for file in Path(folder).glob("[cto][rio][am]*-*"):  # crash-, timeout-, oom-: what it failed on
                    print(file.name, file.read_bytes()[:500])
            print(form, outcomes, *cover, flush=True)
            write_results(options.out, results)
    sys.exit(any(result["exit"] for result in results.values()))


if __name__ == "__main__":
    main()
