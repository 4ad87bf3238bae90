"""What the package says about itself: its extras, its Pythons, its page on a package index."""

import ast
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
CONFIGURATION: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT: dict[str, Any] = CONFIGURATION["project"]
LINK = re.compile(r"\[[^\]]*\]\(([^)]+)\)")
"""A link of Markdown, and where it leads."""
PAGES = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
PAGES += sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").glob("*.md"))


def imported() -> set[str]:
    """The modules that the library imports or asks for, without what follows the first dot."""
    found: set[str] = set()
    for source in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.Import):
                found |= {name.name.partition(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module.partition(".")[0])
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
                found.add(ast.unparse(node.args[0]).strip("'").partition(".")[0])
    return found


def requirements() -> list[tuple[str, str]]:
    """Each package that an extra installs, with the extra."""
    return [
        (extra, re.split(r"[^\w-]", requirement)[0])
        for extra, needed in PROJECT["optional-dependencies"].items()
        for requirement in needed
    ]


@pytest.mark.parametrize(("extra", "package"), requirements())
def test_an_extra_installs_what_is_used(extra: str, package: str) -> None:
    """Each package of an extra is imported somewhere in the library."""
    assert package.replace("-", "_") in imported(), extra


def test_the_pythons_it_names_are_those_it_is_tested_on() -> None:
    """The classifiers name the versions for which `noxfile.py` has sessions."""
    source = ast.parse((ROOT / "noxfile.py").read_text())
    (tested,) = [
        ast.literal_eval(node.value)
        for node in source.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "PYTHONS"
    ]
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert named == tested
    assert PROJECT["requires-python"] == f">={named[0]}"


def page_on_an_index() -> str:
    """The README as the built package has it."""
    page = CONFIGURATION["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    text = "".join(
        (ROOT / part["path"]).read_text() if "path" in part else part["text"]
        for part in page["fragments"]
    )
    for each in page["substitutions"]:
        text = re.sub(each["pattern"], each["replacement"], text)
    return text


def test_no_link_breaks_on_a_package_index() -> None:
    """An index has no file of ours: a link leads to a heading of the page, or to an address.

    Of any other link the name of the file is left.
    """
    assert LINK.findall((ROOT / "README.md").read_text()), "the pattern finds links"
    page = page_on_an_index()
    assert [to for to in LINK.findall(page) if not to.startswith(("#", "https://"))] == []
    assert all(f"`{name}`" in page for name in ("docs/topologies.md", "examples/threads.py"))


def anchors(page: Path) -> set[str]:
    """The headings of a page, as links name them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_each_link_between_our_pages_leads_somewhere(page: str) -> None:
    """The file is there, and so is the heading."""
    for link in LINK.findall((ROOT / page).read_text()):
        if link.startswith("https://"):
            continue
        path, _, heading = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.exists(), link
        assert not heading or heading in anchors(target), link
