"""Loop IR to code: mostly tables from node to text, one folder per kind of target."""

from tilewright.codegen.build import build
from tilewright.codegen.function_info import function_info

__all__ = ["build", "function_info"]
