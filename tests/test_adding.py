"""docs/adding.md holds: its steps are followed literally in a copy of the package, and the result runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "adding.md").read_text()
SECTIONS = {
    title: re.findall(r'^```(python|diff|toml) title="([^"]+)"\n(.*?)^```', body, re.MULTILINE | re.DOTALL)
    for title, body in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
}
FOLLOWED = ["An operator", "A pass", "A format", "A verb", "A device"]


def applied(text: str, diff: str) -> str:
    """The text with the lines marked "+" below the unmarked line before them."""
    for anchor, added in re.findall(r"^ (.+\n)((?:^\+.*\n)+)", diff, re.MULTILINE):
        assert f"\n{anchor}" in text, f"there is no line {anchor!r} any more"
        before, after = text.split(f"\n{anchor}", 1)
        text = f"{before}\n{anchor}{re.sub('^[+]', '', added, flags=re.MULTILINE)}{after}"
    return text


def follow(blocks: list[tuple[str, str, str]], copy: Path) -> None:
    """Write the new files and change the others."""
    for language, name, text in blocks:
        path = copy / name
        if language == "diff":
            path.write_text(applied(path.read_text(), text))
        elif name != "try it":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        if language == "toml":
            install(text, copy)


def install(project: str, copy: Path) -> None:
    """Announce the entry points of a project file, as installing its package does."""
    metadata = copy / "package-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Name: package\nVersion: 1.0\n")
    groups = tomllib.loads(project)["project"]["entry-points"]
    lines = [line for group, of in groups.items() for line in (f"[{group}]", *(f"{k} = {v}" for k, v in of.items()))]
    (metadata / "entry_points.txt").write_text("\n".join(lines))


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The package and the pages, to be changed."""
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=ignored)
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns("*.svg"))
    return tmp_path


@pytest.mark.sample(2)
@pytest.mark.parametrize("title", FOLLOWED)
def test_the_steps_lead_to_what_the_section_says(title: str, copy: Path) -> None:
    blocks = SECTIONS[title]
    follow(blocks, copy)
    (program,) = [text for _, name, text in blocks if name == "try it"]
    environment = os.environ | {"PYTHONPATH": str(copy / "src")}
    done = subprocess.run([sys.executable, "-c", program], cwd=copy, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("title", FOLLOWED)
def test_the_table_counts_the_edits(title: str) -> None:
    """A folder is one; a title names a file, or the new folder that it is in."""
    (row,) = re.findall(rf"^\| \[{title.lower()}\]\(.+?\) \| (\d+) \|", PAGE, re.MULTILINE)
    names = {name for _, name, _ in SECTIONS[title] if name != "try it"}
    edits = {name if (ROOT / name).parent.exists() else str(Path(name).parent) for name in names}
    assert int(row) == len(edits) <= 3


def test_every_section_is_followed() -> None:
    assert list(SECTIONS) == FOLLOWED


def test_a_step_whose_line_is_gone_is_an_error() -> None:
    with pytest.raises(AssertionError, match="no line 'b"):
        applied("\na\n", " b\n+c\n")
    assert applied("x\na\nz\n", " a\n+c\n") == "x\na\nc\nz\n"
