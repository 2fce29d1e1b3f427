"""An Arduino library (specification 1.5, revision 2.2): a description, the source, and a sketch that runs the model."""

from __future__ import annotations

from tilewright.board.project.example import Printing, calls, memory_text, run_text
from tilewright.board.project.sources import VERSION, Sources

_PROPERTIES = """\
name={name}
version={version}
author=Tilewright
maintainer=Tilewright
sentence={sentence}
paragraph=It allocates nothing and needs no library; the sketch owns inputs, outputs and workspace.
category=Data Processing
url=https://example.org/{name}
architectures=*
includes={name}.h
"""

#: Sketches have no options of a library's own: these are in its source.
_OPTIONS = """\
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O2", "wrapv", "no-strict-aliasing", "no-math-errno", "no-tree-loop-if-convert")
#endif
"""

_SKETCH = """\
/* Runs each model of {name} once a second on a pattern of numbers, and prints its outputs and the time. */
#include <{name}.h>

{memory}
{run}
void setup() {{
  Serial.begin(115200);
  while (!Serial) {{
  }}
}}

void loop() {{
  unsigned long start;
  int status;
{calls}  delay(1000);
}}
"""

_CALL = """\
  start = micros();
  status = {call};
  Serial.print("{name}, microseconds with printing: ");
  Serial.println(micros() - start);
  if (status) Serial.println(tilewright_{name}_error_text(status));
"""


def arduino_project(sources: Sources) -> dict[str, str]:
    """The library's files by path."""
    name = sources.name
    number = '(Serial.print(" "), Serial.print({}))'
    run = run_text(sources, Printing(number.format("(long)%s"), number.format("(double)%s"), "Serial.print(%s)"))
    called = "".join(_CALL.format(name=model, call=call) for model, call in calls(sources))
    return {
        "library.properties": _PROPERTIES.format(name=name, version=VERSION, sentence=sources.sentence),
        f"src/{name}.c": _OPTIONS + sources.source,
        f"src/{name}.h": sources.header,
        "examples/Run/Run.ino": _SKETCH.format(name=name, memory=memory_text(sources), run=run, calls=called),
    }
