"""A PlatformIO library: `library.json`, the source, and an example project for any framework that has `main`."""

from __future__ import annotations

import json

from tilewright.board.project.example import main_text
from tilewright.board.project.sources import OPTIONS, VERSION, Sources

#: A project that builds and runs the example on this machine; a board is another section like it.
_INI = """\
[platformio]
src_dir = .

[env]
lib_extra_dirs = ../../..
lib_deps = {name}

[env:native]
platform = native

; [env:nucleo_f446re]
; platform = ststm32
; board = nucleo_f446re
; framework = stm32cube
"""


def platformio_project(sources: Sources) -> dict[str, str]:
    """The library's files by path."""
    name = sources.name
    manifest = {
        "name": name,
        "version": VERSION,
        "description": sources.sentence,
        "keywords": ["machine learning", "neural network"],
        "frameworks": "*",
        "platforms": "*",
        "headers": f"{name}.h",
        "build": {"flags": [*OPTIONS, *(["-lm"] if sources.needs_libm else [])]},
        "examples": [{"name": "run", "base": "examples/run", "files": ["main.c"]}],
    }
    return {
        "library.json": json.dumps(manifest, indent=2) + "\n",
        f"src/{name}.c": sources.source,
        f"include/{name}.h": sources.header,
        "examples/run/main.c": main_text(sources),
        "examples/run/platformio.ini": _INI.format(name=name),
    }
