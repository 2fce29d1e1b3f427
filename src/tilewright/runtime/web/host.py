"""The host operators that the runtime for the web has in JavaScript, read off its files."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

#: Their files, in the order in which they build on each other; `files.mjs` comes before them.
HOST_FILES = ("host.mjs", "host_lists.mjs", "host_elements.mjs", "host_signals.mjs", "host_texts.mjs")


@cache
def host_operators() -> frozenset[str]:
    """The names of the operators: every quoted name of a property in those files is one."""
    folder = files("tilewright.runtime.web")
    texts = [folder.joinpath(name).read_text("utf-8") for name in HOST_FILES]
    return frozenset(name for text in texts for name in re.findall(r'^  "([\w.]+)": ', text, re.MULTILINE))
