"""Projects of build systems around a model's C source: CMake, Zephyr, Arduino, PlatformIO."""

from tilewright.board.project.write import LAYOUTS, write_project

__all__ = ["LAYOUTS", "write_project"]
