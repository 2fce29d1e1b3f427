"""The state of emitting one function: blocks of text, nested scopes, and which expressions have a value already.

An expression is computed once, in the outermost open scope where all its inputs exist (so loop-invariant code never
stands inside the loop), and its value is reused wherever that position dominates. Loads take part too: a load moves out
of the loops that do not write its buffer, and its value, with all that was computed from it, is forgotten when the
buffer is written.

    for i:                          entry:  %v0 = ... n * 16
      for k:                 ->     i:      %v1 = load x[i]
        y[k] = x[i] + n * 16        k:      %v2 = fadd %v1, %v0; store
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from tilewright.codegen.llvm.debug import DebugInfo, FunctionLines
from tilewright.errors import InternalError
from tilewright.support.recursion import nested
from tilewright.target import Target
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Expr, Var

NOTHING: frozenset[Any] = frozenset()


class Value(NamedTuple):
    """An operand: its text, the depth of the scope that computes it, and the buffers it was read from."""

    text: str
    depth: int = 0
    reads: frozenset[Any] = NOTHING


class Block:
    """One basic block under construction."""

    __slots__ = ("label", "lines", "phis", "terminator")

    def __init__(self, label: str) -> None:
        self.label = label
        self.phis: list[str] = []
        self.lines: list[str] = []
        self.terminator = ""


class Scope:
    """A region that one block dominates. `kind` is "function", "loop", "guard" (a loop known to run) or "branch"."""

    __slots__ = ("block", "keys", "kind", "writes")

    def __init__(self, kind: str, block: Block, writes: frozenset[Any] = NOTHING) -> None:
        self.kind = kind
        self.block = block
        self.keys: list[Any] = []
        self.writes = writes


EVERYTHING = "everything"  # stands in a loop's write set for memory of unknown extent (calls, barriers)


LOOPS = "; passes: loops\n"  # the first line of a module whose loops need LLVM's loop passes


#: Functions of the C math library that generated code calls, those of doubles; those of floats end in f.
LIBM = frozenset(
    {
        "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
        "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "pow", "atan2", "fmod", "hypot", "lgamma", "tgamma",
        "cbrt",
    }
)  # fmt: skip

#: Functions of the C library that LLVM makes calls of where a processor has no instruction, or for a whole loop.
_OF_LLVM = frozenset(
    {
        "floor", "ceil", "trunc", "round", "roundeven", "rint", "nearbyint", "sqrt", "fma", "fmin", "fmax", "ldexp",
        "sincos", "memcpy", "memmove", "memset", "memcmp", "bcmp", "strlen",
    }
)  # fmt: skip


def symbol_of(name: str) -> str:
    """The symbol of the kernel `name`: itself, but for names of the C library, whose callers would find the kernel."""
    taken = LIBM | _OF_LLVM
    return f"{name}__kernel" if name in taken or (name.endswith("f") and name[:-1] in taken) else name


class Module:
    """The shared state of one module's functions: declarations, assertion messages and loop metadata."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.declarations: dict[str, str] = {}
        self.defined: dict[str, str] = {}
        self.messages: list[str] = []
        self.metadata: list[str] = []
        self.needs_loop_passes = False
        self.helpers: dict[str, str] = {}  # functions of the module's own that its kernels call, by what they are for
        self.debug: DebugInfo | None = None

    def declare(self, name: str, result: str, arguments: str, attributes: str = "") -> str:
        """The callee text ``@name`` of an external function, declared once."""
        if name not in self.defined:
            text = f"declare {result} @{name}({arguments}){attributes}"
            known = self.declarations.setdefault(name, text)
            if known != text:
                raise InternalError(f"function {name!r} is called with two signatures: {known} and {text}")
        return f"@{name}"

    def message_code(self, message: str) -> int:
        """The return code of an assertion with this message: its 1-based position in the module's message table."""
        if message not in self.messages:
            self.messages.append(message)
        return self.messages.index(message) + 1

    def loop_metadata(self, properties: Iterable[str]) -> str:
        """A distinct loop identifier with the given properties, as ``!N``."""
        refs = []
        for text in properties:
            self.metadata.append(f"!{{{text}}}")
            refs.append(f"!{len(self.metadata) - 1}")
        own = f"!{len(self.metadata)}"
        self.metadata.append(f"distinct !{{{', '.join([own, *refs])}}}")
        return own


class FunctionBuilder:
    """Emits one function. `expressions` maps a node class to the function that emits it (see `emitter.py`)."""

    def __init__(self, module: Module, expressions: dict[type, Callable[[FunctionBuilder, Any], Value]]) -> None:
        self.module = module
        self.target = module.target
        self.index = "i32" if module.target.architecture == "wasm32" else "i64"  # of addresses and loops
        self.expressions = expressions
        entry = Block("entry")
        self.blocks = [entry]
        self.allocas: list[str] = []
        self.scopes = [Scope("function", entry)]
        self.memo: dict[Any, Value] = {}
        self.readers: dict[Any, list[Any]] = {}
        self.buffers: dict[Buffer, Value] = {}
        self.roots: dict[Buffer, Any] = {}  # buffers that may overlap others, and what stands for their memory
        self.wide_variables: dict[Var, Value] = {}
        self.lanes: dict[tuple[Expr, int], Var] = {}  # stand-ins for the lanes of vector indices
        self.nonnegative: dict[Expr, bool] = {}
        self.writes: dict[Any, frozenset[Any]] = {}
        self.count = 0
        self.tile_rows: dict[int, tuple[int, int]] = {}  # of the matrix registers in use, and the bytes of a row
        self.computes_half = False  # with instructions of float16
        self.lines: FunctionLines | None = None
        self.location = ""  # the debug attachment of the statement at hand
        self._branches: list[int] = [0]

    # ------------------------------------------------------------------------------------------------ expressions
    def value(self, expr: Expr) -> Value:
        """The value of `expr`, emitted now unless an open scope has it."""
        found = self.memo.get(expr)
        return self._emitted(expr) if found is None else found

    @nested
    def _emitted(self, expr: Expr) -> Value:
        emit = self.expressions.get(type(expr))
        if emit is None:
            raise InternalError(f"no LLVM code for {type(expr).__name__}: {expr!r}")
        result = emit(self, expr)
        if expr not in self.memo:
            self.remember(expr, result)
        return result

    def remember(self, key: Any, value: Value) -> None:
        """Reuse `value` for `key` until its scope closes or a buffer it was read from is written."""
        self.memo[key] = value
        if value.depth:
            self.scopes[value.depth].keys.append(key)
        for root in value.reads:
            self.readers.setdefault(root, []).append(key)

    def define(self, text: str, *operands: Value, depth: int = 0) -> Value:
        """A new value computed by instruction `text` from `operands`, placed as far out as they and `depth` allow.

        What is computed under a condition stays there.
        """
        reads = NOTHING
        for operand in operands:
            if operand.depth > depth:
                depth = operand.depth
            if operand.reads is not reads and operand.reads:
                reads = reads | operand.reads if reads else operand.reads
        floor = self._branches[-1]
        if depth < floor:
            depth = floor
        name = f"%v{self.count}"
        self.count += 1
        self.scopes[depth].block.lines.append(f"  {name} = {text}{self.location}")
        return Value(name, depth, reads)

    def defined_once(self, text: str, *operands: Value) -> Value:
        """Like `define`, but the same instruction on the same operands is emitted once."""
        found = self.memo.get(text)
        if found is None:
            found = self.define(text, *operands)
            self.remember(text, found)
        return found

    @property
    def depth(self) -> int:
        """Depth of the innermost open scope."""
        return len(self.scopes) - 1

    def root(self, buffer: Buffer) -> Any:
        """The pointer to the memory of `buffer`: itself, unless it is a parameter that may overlap others."""
        return self.roots.get(buffer, buffer)

    def load_depth(self, buffer: Buffer) -> int:
        """Depth of the outermost scope to which a load of `buffer` may move from here."""
        root = self.root(buffer)
        depth = len(self.scopes) - 1
        while depth > 0:
            scope = self.scopes[depth]
            if scope.kind != "loop" or root in scope.writes or EVERYTHING in scope.writes:
                break
            depth -= 1
        return depth

    def forget(self, root: Any) -> None:
        """Forget values read from the memory `root`, which is being written."""
        for key in self.readers.pop(root, ()):
            self.memo.pop(key, None)

    def forget_all_reads(self) -> None:
        """Forget values read from any memory (a call or barrier may have changed it)."""
        for root in list(self.readers):
            self.forget(root)

    def bind(self, var: Var, value: Value) -> None:
        """`var` stands for `value` from here on. Rebinding forgets everything computed, as it may depend on `var`."""
        known = self.memo.get(var)
        if known is not None and known.text != value.text:
            for key in [k for k in self.memo if not isinstance(k, Var)]:
                del self.memo[key]
        self.memo[var] = Value(value.text, value.depth)

    # ---------------------------------------------------------------------------------------------- control flow
    def new_block(self, hint: str) -> Block:
        """A new block, placed after the ones before."""
        block = Block(f"{hint}{len(self.blocks)}")
        self.blocks.append(block)
        return block

    @property
    def block(self) -> Block:
        """The block that statements are appended to."""
        return self.scopes[-1].block

    def line(self, text: str) -> None:
        """Append an instruction with an effect to the current block."""
        self.scopes[-1].block.lines.append(f"  {text}{self.location}")

    def open(self, kind: str, block: Block, writes: frozenset[Any] = NOTHING) -> Scope:
        """Enter a scope whose first block is `block`."""
        scope = Scope(kind, block, writes)
        self.scopes.append(scope)
        if kind == "branch":
            self._branches.append(len(self.scopes) - 1)
        return scope

    def close(self) -> Block:
        """Leave the innermost scope: its values are out of reach. Returns its last block, which needs a terminator."""
        scope = self.scopes.pop()
        if scope.kind == "branch":
            self._branches.pop()
        for key in scope.keys:
            self.memo.pop(key, None)
        return scope.block
