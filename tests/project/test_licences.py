"""The licences of all dependencies permit use and redistribution; docs/licences.md lists them."""

import re
from email.message import Message
from importlib.metadata import PackageNotFoundError, distribution
from types import SimpleNamespace

import pytest

pytest.importorskip("packaging")


@pytest.fixture
def licences():
    from scripts import licences_page

    return licences_page


def test_the_page_lists_the_direct_dependencies(licences):
    """By name, version range and extra. Installed versions are not compared, because they change without us."""
    table = licences.PAGE.read_text().partition("## What Crowdwise asks for")[2].partition("##")[0]
    listed = re.findall(r"^\| ([a-z][\w-]+) \| (\S+) \| (.*?) \| .* \| (.*?) \|$", table, re.MULTILINE)
    asked = [
        (name, versions, ", ".join(f"`{extra}`" for extra in extras) or "core", licences.WHAT_FOR[name])
        for name, (versions, extras) in sorted(licences.asked().items())
    ]
    assert listed == asked, "run `python -m scripts.licences_page`"


def test_all_dependencies_may_be_redistributed(licences):
    own = set(licences.asked())
    try:
        names = own | licences.brought(own).keys()
    except PackageNotFoundError as error:
        pytest.skip(f"{error.name} is not installed: licences are NOT tested here")
    assert len(names) > len(own) > 15
    for name in names:
        licences.licence(distribution(name))


def package(**metadata):
    """Return a package with this metadata."""
    fields = Message()
    fields["Name"] = "example"
    for key, value in metadata.items():
        for each in value if isinstance(value, list) else [value]:
            fields[key.replace("_", "-")] = each
    return SimpleNamespace(metadata=fields)


@pytest.mark.parametrize(
    ("metadata", "found"),
    [
        ({"License_Expression": "MIT OR GPL-2.0-only", "License": "GPL"}, "MIT OR GPL-2.0-only"),
        ({"License_Expression": "(MIT OR GPL-2.0-only) AND BSD-3-Clause"}, "(MIT OR GPL-2.0-only) AND BSD-3-Clause"),
        ({"License": "Apache 2.0 License"}, "Apache-2.0"),
        ({"License": "MIT License\nCopyright (c)", "Classifier": ["License :: OSI Approved :: BSD License"]}, "BSD"),
        ({"License": "UNKNOWN", "Classifier": ["License :: OSI Approved :: MIT License", "Topic :: X"]}, "MIT"),
        (
            {"License_Expression": "BSD-3-Clause AND GPL-3.0-or-later WITH GCC-exception-3.1"},
            "BSD-3-Clause AND GPL-3.0-or-later WITH GCC-exception-3.1",
        ),
    ],
)
def test_the_licence_is_read_from_the_metadata(licences, metadata, found):
    assert licences.licence(package(**metadata)) == found


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"License": "UNKNOWN"},
        {"License": "GPLv3"},
        {"License_Expression": "AGPL-3.0-only"},
        {"License_Expression": "MIT AND GPL-3.0-or-later"},
        {"License_Expression": "MIT AND (GPL-2.0-only OR AGPL-3.0-only)"},
        {"License": "Proprietary"},
        {"License_Expression": "GPL-3.0-only WITH Autoconf-exception-3.0"},
        {"Classifier": ["License :: OSI Approved :: MIT License", "License :: OSI Approved :: GPL"]},
    ],
    ids=str,
)
def test_unknown_and_copyleft_licences_are_rejected(licences, metadata):
    with pytest.raises(ValueError, match="example is under"):
        licences.licence(package(**metadata))
