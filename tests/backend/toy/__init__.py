"""A device that is no processor, whole: a target, a backend, a memory of its own, a program. One line enters it."""

from __future__ import annotations

from tests.backend.toy.backend import ToyBackend
from tests.backend.toy.program import ToyProgram
from tilewright.backend import kinds

kinds.register("toy", ToyBackend, ToyProgram)
