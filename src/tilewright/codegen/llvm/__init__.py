"""Loop IR to LLVM IR text, and text to object code in this process.

Read `module.py` (the module and its entries), then `statements.py` and `emitter.py` (tables from node to text), then
`builder.py` (what is computed where) and `object.py` (LLVM's part).
"""

from tilewright.codegen.llvm.module import EmittedModule, emit, emit_module
from tilewright.codegen.llvm.object import CompileTimes, assembly, bitcode, compile_object, compile_timed, optimized
from tilewright.codegen.llvm.source_lines import with_source_lines

__all__ = [
    "CompileTimes",
    "EmittedModule",
    "assembly",
    "bitcode",
    "compile_object",
    "compile_timed",
    "emit",
    "emit_module",
    "optimized",
    "with_source_lines",
]
