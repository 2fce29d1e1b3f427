"""A Zephyr module: its description, CMake and Kconfig, and a sample that runs the model.

    west build -b qemu_cortex_m3 DIR/samples/run

The keys of `zephyr/module.yml` are those of Zephyr's `scripts/zephyr_module.py`.
"""

from __future__ import annotations

from tilewright.board.project.example import has_floats, main_text
from tilewright.board.project.sources import GCC_OPTIONS, OPTIONS, Sources

_MODULE = """\
name: {name}
build:
  cmake: zephyr
  kconfig: zephyr/Kconfig
samples:
  - samples
"""

_CMAKE = """\
if(CONFIG_TILEWRIGHT_{upper})
  zephyr_include_directories(../include)
  zephyr_library_named({name})
  zephyr_library_sources(../src/{name}.c)
  # integers of a model wrap, and buffers of several types share memory
  zephyr_library_compile_options({options} $<$<C_COMPILER_ID:GNU>:{gcc}>)
endif()
"""

_KCONFIG = """\
config TILEWRIGHT_{upper}
\tbool "{name}: a model compiled by Tilewright"
\thelp
\t  {sentence}
\t  The application owns inputs, outputs and workspace; see {name}.h.
"""

_SAMPLE_CMAKE = """\
cmake_minimum_required(VERSION 3.20.0)
list(APPEND EXTRA_ZEPHYR_MODULES ${{CMAKE_CURRENT_SOURCE_DIR}}/../..)
find_package(Zephyr REQUIRED HINTS $ENV{{ZEPHYR_BASE}})
project(run_{name})
target_sources(app PRIVATE src/main.c)
"""

_SAMPLE_TESTS = """\
sample:
  name: {name}
  description: {sentence}
tests:
  sample.tilewright.{name}:
    tags: tilewright
    harness: console
    harness_config:
      type: one_line
      regex:
        - ".*: .*"
"""


def zephyr_project(sources: Sources) -> dict[str, str]:
    """The module's files by path."""
    words = {
        "name": sources.name,
        "upper": sources.name.upper(),
        "sentence": sources.sentence,
        "options": " ".join(OPTIONS),
        "gcc": ";".join(GCC_OPTIONS),
    }
    settings = f"CONFIG_TILEWRIGHT_{words['upper']}=y\nCONFIG_MAIN_STACK_SIZE=8192\n"
    if has_floats(sources):
        settings += "CONFIG_REQUIRES_FLOAT_PRINTF=y\n"  # Zephyr's printf knows them on request
    return {
        "zephyr/module.yml": _MODULE.format_map(words),
        "zephyr/CMakeLists.txt": _CMAKE.format_map(words),
        "zephyr/Kconfig": _KCONFIG.format_map(words),
        f"src/{sources.name}.c": sources.source,
        f"include/{sources.name}.h": sources.header,
        "samples/run/CMakeLists.txt": _SAMPLE_CMAKE.format_map(words),
        "samples/run/prj.conf": settings,
        "samples/run/sample.yaml": _SAMPLE_TESTS.format_map(words),
        "samples/run/src/main.c": main_text(sources),
    }
