"""Generated files follow from the registry and the command line (`make generate`)."""

import pytest

from crowdwise._core import registry
from crowdwise._core.registry import Method
from scripts import generate


def test_generated_files_are_up_to_date():
    assert generate.outdated() == [], "run `make generate`"


@pytest.fixture
def copy(tmp_path):
    """A folder with the generated parts of every file, up to date."""
    for file, part in generate.generated():
        target = tmp_path / file
        target.parent.mkdir(parents=True, exist_ok=True)
        begin, end = (
            ("# generated: {}", "# end") if file.endswith(".yml") else ("<!-- generated: {} -->", "<!-- end -->")
        )
        with target.open("a") as stream:
            stream.write(f"{begin.format(part)}\n{end}\n" if part else "")
    generate.outdated(tmp_path, write=True)
    assert generate.outdated(tmp_path) == []
    return tmp_path


@pytest.mark.parametrize(
    ("home", "reference"),
    [("truth.methods.new:NewMethod", "docs/api/truth.md"), ("learn.methods.new:NewMethod", "docs/api/learn.md")],
)
def test_one_registry_line_updates_every_generated_list(home, reference, copy, monkeypatch):
    """The stub, the README, the navigation, the index of methods and one page of the reference; nothing else."""
    new = Method("new-method", home, "-", "a method for this test", needs_features=home.startswith("learn"))
    monkeypatch.setattr(registry, "_METHODS", (*registry._METHODS, new))
    expected = ["README.md", "docs/methods/index.md", "mkdocs.yml", reference, "src/crowdwise/__init__.pyi"]
    assert sorted(generate.outdated(copy, write=True)) == sorted(expected)
    for file in expected:
        text = (copy / file).read_text()
        assert text.count("new-method") + text.count("NewMethod") > 0, file
    assert generate.outdated(copy) == []
