"""Claims of the pages: links and paths lead somewhere, and the command line page names every verb and option."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import click
import pytest

from tilewright.cli.main import VERBS, cli
from tilewright.relay.transform.passes import PASSES, PIPELINE
from tilewright.support import knobs

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
#: Named on the page by its short form.
SHORT = {"--output"}
COMMANDS = (ROOT / "docs" / "cli.md").read_text()
#: Paths in code marks that begin like this are paths of the checkout, or of the package.
PATH = re.compile(
    r"`((?:src|tests|docs|examples|scripts|bench|relay|te|tir|topi|arith|codegen|runtime|support|cli)/[\w./-]+)`"
)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_and_paths_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    links = [link.split("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    lost = [link for link in links if link and not (page.parent / link).exists()]
    lost += [
        p for p in PATH.findall(text) if not any((base / p).exists() for base in (ROOT, ROOT / "src" / "tilewright"))
    ]
    assert not lost


def test_every_page_is_reached_from_the_readme() -> None:
    """By way of docs/index.md, which has a way in for each reader."""
    assert "(docs/index.md)" in (ROOT / "README.md").read_text()
    index = ROOT / "docs" / "index.md"
    assert not [
        page.name for page in index.parent.glob("*.md") if page != index and f"({page.name})" not in index.read_text()
    ]


@pytest.mark.parametrize("verb", VERBS)
def test_the_command_line_page_names_every_option(verb: str) -> None:
    assert f"`tilewright {verb}" in COMMANDS
    command = cli.get_command(click.Context(cli), verb)
    assert command is not None
    options = [max(p.opts, key=len) for p in command.params if isinstance(p, click.Option)]
    assert not [o for o in options if o not in SHORT and not re.search(rf"`[^`]*{o}(?![\w-])[^`]*`", COMMANDS)]


def test_the_command_line_page_names_every_variable() -> None:
    assert not [knob.name for knob in knobs.all_knobs() if knob.name not in COMMANDS]


def test_the_walkthrough_prints_what_it_shows(request: pytest.FixtureRequest) -> None:
    """Its programs are one session; a text block shows what the program above it prints. `--accept` rewrites them."""
    page = ROOT / "docs" / "walkthrough.md"
    session: dict[str, object] = {}

    def rerun(block: re.Match[str]) -> str:
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile(block["program"], str(page), "exec"), session)
        shown = f"```text\n{printed.getvalue().rstrip()}\n```\n" if printed.getvalue() else ""
        return f"```python\n{block['program']}```\n{shown}"

    text = page.read_text()
    block = r"^```python\n(?P<program>.*?)^```\n(?:```text\n.*?^```\n)?"
    actual = re.sub(block, rerun, text, flags=re.MULTILINE | re.DOTALL)
    if request.config.getoption("--accept"):
        page.write_text(actual)
    else:
        assert actual == text, "the compiler prints something else now; run with --accept if it is meant to"


def test_the_passes_page_names_every_pass_with_its_level() -> None:
    """Passes that run a second time in the pipeline have a name of their own there, and no row."""
    page = (ROOT / "docs" / "passes.md").read_text()
    again = {"share_packed_weights", "fold_packed_weights"}
    for one in [one for one in PIPELINE if one.name not in again]:
        row = next((line for line in page.splitlines() if line.startswith("| `") and f"`{one.name}`" in line), "")
        assert row, f"docs/passes.md has no row for {one.name}"
        assert row.split("|")[2].strip().split(",")[0] == str(one.level), row
    assert not {one.name for one in PASSES if one.name not in again and f"`{one.name}`" not in page}
