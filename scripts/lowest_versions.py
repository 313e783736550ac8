"""Print the lowest versions that pyproject.toml allows, as pip constraints; `make test-lowest` installs them."""

import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
# Not torch (its old builds on PyPI bring gigabytes of CUDA; constraints.txt names the build that is tested), nor Spark
# and what turns images and sentences into features.
EXTRAS = ("pandas", "polars", "plots", "report")


def lowest(project: str) -> dict[str, str]:
    """Name -> the lowest version allowed, of what the core and `EXTRAS` ask for."""
    table = tomllib.loads(project)["project"]
    asked = [*table["dependencies"], *(line for extra in EXTRAS for line in table["optional-dependencies"][extra])]
    found: dict[str, str] = {}
    for line in asked:
        bound = re.fullmatch(r"([\w-]+)>=([\d.]+)(,<[\d.]+)?", line)
        assert bound, f"{line} in pyproject.toml has no lower bound"
        assert found.setdefault(bound[1], bound[2]) == bound[2], f"{bound[1]} has two lower bounds in pyproject.toml"
    return found


if __name__ == "__main__":
    print("\n".join(f"{name}=={version}" for name, version in lowest(PROJECT.read_text()).items()))
