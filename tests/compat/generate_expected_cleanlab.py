"""Write expected_cleanlab.json: the results of cleanlab for the test cases. Run with a Python that has cleanlab 2.9.0:

.venv-peers/bin/python tests/compat/generate_expected_cleanlab.py
"""

import inspect
import warnings
from pathlib import Path

from tests.compat.generate_expected import to_json
from tests.helpers.cleanlab_cases import DATA, cases, run_active, run_quality


def main():
    import cleanlab  # not installed where the tests run
    from cleanlab.multiannotator import get_active_learning_scores, get_label_quality_multiannotator

    warnings.simplefilter("ignore")
    parts = {
        "quality": {name: run_quality(get_label_quality_multiannotator, name) for name in cases()},
        "active": {name: run_active(get_active_learning_scores, name) for name in DATA},
        "signatures": {
            function.__name__: {name: str(p.kind) for name, p in inspect.signature(function).parameters.items()}
            for function in (get_active_learning_scores, get_label_quality_multiannotator)
        },
    }
    text = ",\n".join(f'"{part}": {to_json(lines)}' for part, lines in parts.items())
    path = Path(__file__).with_name("expected_cleanlab.json")
    path.write_text(f'{{"cleanlab": "{cleanlab.__version__}",\n{text}}}\n')


if __name__ == "__main__":
    main()
