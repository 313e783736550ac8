"""What is installed to run may be used and passed on, and docs/licences.md says so."""

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


def test_the_page_lists_what_crowdwise_asks_for(licences):
    """By name, range and extra; not by what is installed, which changes by itself."""
    table = licences.PAGE.read_text().partition("## What Crowdwise asks for")[2].partition("##")[0]
    listed = re.findall(r"^\| ([a-z][\w-]+) \| (\S+) \| (.*?) \| .* \| (.*?) \|$", table, re.MULTILINE)
    asked = [
        (name, versions, ", ".join(f"`{extra}`" for extra in extras) or "core", licences.WHAT_FOR[name])
        for name, (versions, extras) in sorted(licences.asked().items())
    ]
    assert listed == asked, "run `python -m scripts.licences_page`"


def test_everything_installed_to_run_may_be_passed_on(licences):
    own = set(licences.asked())
    try:
        names = own | licences.brought(own).keys()
    except PackageNotFoundError as error:
        pytest.skip(f"{error.name} is not installed: licences are NOT tested here")
    assert len(names) > len(own) > 15
    for name in names:
        licences.licence(distribution(name))


def package(**metadata):
    """A package that says this of itself."""
    told = Message()
    told["Name"] = "made-up"
    for key, value in metadata.items():
        for each in value if isinstance(value, list) else [value]:
            told[key.replace("_", "-")] = each
    return SimpleNamespace(metadata=told)


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
def test_a_licence_is_read_as_the_package_says_it(licences, metadata, found):
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
def test_an_unknown_or_binding_licence_is_refused(licences, metadata):
    with pytest.raises(ValueError, match="made-up is under"):
        licences.licence(package(**metadata))
