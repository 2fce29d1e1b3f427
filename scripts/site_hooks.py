"""Hooks of MkDocs: charts of the benchmark tables, and files of the checkout beside docs/ as pages of the site.

MkDocs sees only docs/. CONTRIBUTING.md and CHANGELOG.md become pages beside it, and so does each example that a page
links to as `../examples/NAME`; links are rewritten to those pages.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

from scripts.charts import html, networks, with_charts

ROOT = Path(__file__).resolve().parent.parent
PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
#: The picture of the README; on the site the chart itself stands in its position, which narrow pages can read.
PICTURE = re.compile(r"!\[[^]]*\]\(networks\.svg\)")
LANGUAGES = {".py": "python", ".c": "c"}


def example_page(path: Path) -> str:
    """The page of one example: its text, under its name."""
    text = path.read_text().rstrip()
    return f"# {path.name}\n\n`examples/{path.name}` of the checkout.\n\n```{LANGUAGES[path.suffix]}\n{text}\n```\n"


def site_links(text: str) -> str:
    """The links of a page of docs/, or of one beside it, as the site has their targets."""
    text = re.sub(r"\]\((?:\.\./)?examples/(\w+)\.(?:py|c)\)", r"](examples/\1.md)", text)
    for source, page in PAGES.items():
        text = re.sub(rf"\]\((?:\.\./)?{re.escape(source)}(#[^)]*)?\)", rf"]({page}\1)", text)
    return re.sub(r"\]\(\.\./README\.md\)", "](index.md)", text)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are made from files beside docs/."""
    for source, page in PAGES.items():
        text = (ROOT / source).read_text().replace("](docs/", "](")
        files.append(File.generated(config, page, content=text))
    for path in sorted((ROOT / "examples").iterdir()):
        if path.suffix in LANGUAGES:
            files.append(File.generated(config, f"examples/{path.stem}.md", content=example_page(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The text of a page with its links as on the site and its charts drawn."""
    if page.file.src_uri.startswith("examples/"):
        return markdown
    text = PICTURE.sub(lambda _: html(networks()), site_links(markdown))
    return with_charts(text)
