"""Check a release: build it, install it alone, and try it. `make release` runs this; it takes a few minutes.

    python -m scripts.check_release [--demo]

    build      wheel and sdist, each in an isolated environment; the wheel is built from the sdist
    check      twine accepts both; the type information that users see is at least `TYPED` complete (pyright)
    install    the wheel alone into an empty environment, whose size is printed
    try        a run with its report, the smoke tests, and with `--demo` `crowdwise demo` (needs torch, 3 minutes)

The wheel and the sdist are left in `dist/`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
TYPED = 0.93  # share of public names whose types are known (pyright --verifytypes)


def main(demo: bool) -> None:
    """Take all steps; stop at the first that fails."""
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        tools = new_environment(place / "tools", "build", "twine", "pyright")
        run(tools, "-m", "build", "--outdir", dist, ROOT)
        files = sorted(dist.iterdir())
        run(tools, "-m", "twine", "check", "--strict", *files)
        (wheel,) = dist.glob("*.whl")
        start = time.perf_counter()
        alone = new_environment(place / "alone", str(wheel))
        seconds, size = (
            time.perf_counter() - start,
            sum(f.stat().st_size for f in alone.parents[1].rglob("*") if f.is_file()),
        )
        print(f"installed in {seconds:.0f} s, {size / 1e6:.0f} MB", flush=True)
        work = place / "work"
        work.mkdir()
        crowdwise = ["-m", "crowdwise"]
        run(alone, *crowdwise, "simulate", "--out", "answers.csv", "--tasks", "200", cwd=work)
        run(alone, *crowdwise, "run", "answers.csv", "--out", "run", cwd=work)
        assert (work / "run" / "report.html").is_file(), "the run wrote no report"
        share = completeness(tools, alone, work)
        print(f"{share:.1%} of the public names have known types", flush=True)
        assert share >= TYPED, f"less than {TYPED:.0%}"
        run(alone, "-m", "pip", "install", "--quiet", "pytest")
        shutil.copy(ROOT / "tests" / "test_smoke.py", work)
        run(alone, "-m", "pytest", "-q", "test_smoke.py", cwd=work)
        if demo:
            run(alone, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", f"{wheel}[torch,report]")
            run(alone, *crowdwise, "demo", cwd=work)
    print("\n".join(str(file.relative_to(ROOT)) for file in files))


def new_environment(place: Path, *packages: str) -> Path:
    """Create a virtual environment with these packages, and return its interpreter."""
    venv.create(place, with_pip=True)
    python = place / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages)
    return python


def completeness(tools: Path, installed: Path, work: Path) -> float:
    """Return the share of public names with known types, as pyright sees the installed package."""
    command = [tools, "-m", "pyright", "--pythonpath", installed, "--verifytypes", "crowdwise", "--ignoreexternal",
               "--outputjson"]  # fmt: skip
    done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
    return float(json.loads(done.stdout)["typeCompleteness"]["completenessScore"])


def run(python: Path, *arguments: str | Path, cwd: Path | None = None) -> None:
    """Run Python with these arguments; print the command, and stop if it fails."""
    print("$ python", *arguments, flush=True)
    subprocess.run([python, *arguments], cwd=cwd, check=True)


if __name__ == "__main__":
    main("--demo" in sys.argv[1:])
