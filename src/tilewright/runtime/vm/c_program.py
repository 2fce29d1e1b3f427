"""A program of the virtual machine as C: one function with branches and loops around the compiled segments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.errors import InternalError, UnsupportedError
from tilewright.runtime.c_interface import INTERFACE_ERRORS, KERNEL_ERROR, CInterface
from tilewright.runtime.c_source import CModel
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.signature import TensorSpec
from tilewright.runtime.threads import MAX_WORKERS
from tilewright.runtime.vm import steps as vm
from tilewright.runtime.vm.flat import FlatProgram, flat_model

#: The name of the function that a program becomes.
ENTRY = "tilewright_program"

_HELPERS = """\
#include <stddef.h>

extern void *memcpy(void *to, const void *from, size_t bytes);

/* What a loop carries to its next turn, in the one of two buffers where it does not lie now. */
static inline unsigned char *tilewright_carry(
    unsigned char *now, const unsigned char *next, unsigned char *one, unsigned char *other, int64_t bytes) {
  unsigned char *target = now == one ? other : one;
  if (next == now) return now;
  memcpy(target, next, (size_t)bytes);
  return target;
}

/* Rows of `outer` pieces each as slices along an inner axis. */
static inline void tilewright_stack(
    unsigned char *to, const unsigned char *rows, int64_t length, int64_t outer, int64_t bytes) {
  int64_t row, piece;
  for (row = 0; row < length; row++)
    for (piece = 0; piece < outer; piece++)
      memcpy(to + (piece * length + row) * bytes, rows + (row * outer + piece) * bytes, (size_t)bytes);
}
"""

_PROGRAM = """\
static int tilewright_program(void **slots, int threads) {{
  unsigned char *const weights = (unsigned char *)slots[{first}];
  unsigned char *const arena = (unsigned char *)slots[{first} + 1];
  unsigned char *const scratch = (unsigned char *)slots[{first} + 2];
  void *s[{most_slots}];
{variables}  (void)weights, (void)arena, (void)scratch, (void)s, (void)threads;
{body}
  return 0;
}}
"""

_ALONE = "#define TILEWRIGHT_RUN(entry) entry(s, &tilewright_alone)"
_SHARED = "#define TILEWRIGHT_RUN(run) run(s, threads)"
_WEIGHTS = "extern const unsigned char tilewright_weights[];\n"


def callable_program(manifest: Manifest) -> CModel | None:
    """The functions by which C programs call a program of the virtual machine.

    None for a straight graph, which needs none, and for a program that cannot be called, which exporting then reports.
    """
    try:
        return None if manifest.is_native else program_model(manifest, alone=False)
    except UnsupportedError:
        return None


def program_model(manifest: Manifest, alone: bool) -> CModel:
    """The program of `manifest` as functions of C; `alone` where its segments are in the same file, for one thread.

    Raises `UnsupportedError` where sizes are symbolic or operators run on the host, with the node.
    """
    flat, outputs = flat_model(manifest)
    interface = program_interface(manifest, flat, outputs)
    variables = [f"unsigned char *v{i} = 0;" for i in range(flat.pointers)]
    variables += [f"int64_t n{i} = 0;" for i in range(flat.counts)]
    printer = _Printer(manifest, alone)
    program = _PROGRAM.format(
        first=len(manifest.inputs) + len(outputs),
        most_slots=flat.most_slots,
        variables="".join(f"  {line}\n" for line in variables),
        body="\n".join(line for step in flat.steps for line in printer.lines(step)),
    )
    symbols = dict.fromkeys(segment.run_symbol for segment in manifest.segments)
    extern = [f"extern int32_t {symbol}(void **slots, int32_t threads);" for symbol in symbols]
    entries = [] if alone else [_WEIGHTS, *extern]
    macros = [_ALONE if alone else _SHARED, f"#define TILEWRIGHT_KERNEL_ERROR {interface.kernel_error}"]
    tables = [
        f"static const {dtype}_t k{i}[] = {{{', '.join(map(str, numbers)) or '0'}}};"
        for i, (dtype, numbers) in enumerate(flat.tables)
    ]
    parts = [*entries, _HELPERS, *macros, *tables, program]
    return CModel(interface, "\n".join(parts), "tilewright_program(slots, threads)")


def program_interface(manifest: Manifest, flat: FlatProgram, outputs: tuple[TensorSpec, ...]) -> CInterface:
    """The interface of a program whose steps and outputs are known: see `flat_model`."""
    return CInterface(
        entry=ENTRY,
        inputs=manifest.inputs,
        outputs=outputs,
        dims=(),
        table=0,
        stride=0,
        plan=0,
        arena_bytes=flat.workspace_bytes,
        scratch_bytes=flat.scratch_bytes,
        max_threads=min(manifest.max_workers or MAX_WORKERS, MAX_WORKERS),
        errors=(*INTERFACE_ERRORS, *flat.messages, KERNEL_ERROR),
    )


class _Printer:
    """Steps as lines of C."""

    def __init__(self, manifest: Manifest, alone: bool) -> None:
        self.symbols = [s.entry_symbol if alone else s.run_symbol for s in manifest.segments]

    def lines(self, step: vm.Step) -> Iterator[str]:
        """The lines of one step, indented."""
        if isinstance(step, vm.Label):
            yield f"{step.name}:;"
        elif isinstance(step, vm.Unless | vm.Repeat):
            test = f"{'!' * isinstance(step, vm.Unless)}*({_address(step.test)})"
            before = list(self.all(step.before)) if isinstance(step, vm.Unless) else []
            jump = f"goto {step.label};"
            yield from [f"  if ({test}) {{", *before, f"    {jump}", "  }"] if before else [f"  if ({test}) {jump}"]
        elif isinstance(step, vm.Jump | vm.Assign):
            yield from self.all(step.before)
            if isinstance(step, vm.Jump):
                yield f"  goto {step.label};"
        elif isinstance(step, vm.Run):
            yield from self.run(step)
        elif isinstance(step, vm.Again):
            yield from self.again(step)
        else:
            yield f"  {_statement(step)}"

    def all(self, steps: Sequence[vm.Step]) -> Iterator[str]:
        """The lines of several steps."""
        for step in steps:
            yield from self.lines(step)

    def run(self, step: vm.Run) -> Iterator[str]:
        """Run a segment: its addresses, then those of the memory it works in."""
        memory = [_address(address) for address in step.addresses] + ["weights", "arena", "scratch"]
        for index, text in enumerate(memory):
            yield f"  s[{index}] = {text};"
        yield f"  if (TILEWRIGHT_RUN({self.symbols[step.segment]})) return TILEWRIGHT_KERNEL_ERROR;"

    def again(self, step: vm.Again) -> Iterator[str]:
        """Update the carried values of a loop, all of them read before any is written."""
        yield "  {"
        for index, one in enumerate(step.carried):
            yield f"    unsigned char *const next{index} = {_address(one.value)};"
        for index, count in enumerate(step.counts):
            yield f"    const int64_t length{index} = {count.value};"
        for index, one in enumerate(step.carried):
            positions = f"{_address(one.one)}, {_address(one.other)}"
            yield f"    {one.variable} = tilewright_carry({one.variable}, next{index}, {positions}, {one.nbytes});"
        for index, count in enumerate(step.counts):
            yield f"    {count.variable} = length{index};"
        yield from [f"    goto {step.label};", "  }"]


def _statement(step: vm.Step) -> str:
    """A step that is one statement."""
    match step:
        case vm.Point(variable, address):
            return f"{variable} = {_address(address)};"
        case vm.Count(variable, value):
            return f"{variable} = {value};"
        case vm.Increment(variable):
            return f"{variable}++;"
        case vm.Swap(variable, one, other):
            return f"{variable} = {variable} == {_address(one)} ? {_address(other)} : {_address(one)};"
        case vm.Copy(target, source, nbytes):
            return f"memcpy({_address(target)}, {_address(source)}, {nbytes});"
        case vm.Stack(target, source, length, outer, nbytes):
            return f"tilewright_stack({_address(target)}, {_address(source)}, {length}, {outer}, {nbytes});"
        case vm.Room(count, most, error):
            return f"if ({count} >= {most}) return {_code(error)};"
        case vm.Expect(count, length, error):
            return f"if ({count} != {length}) return {_code(error)};"
        case vm.Stop(error):
            return f"return {_code(error)};"
    raise InternalError(f"there is no C for the step {step}")


def _code(error: int) -> int:
    """The code of an error of the program: those of the interface come first."""
    return len(INTERFACE_ERRORS) + 1 + error


def _address(address: vm.Address) -> str:
    """The C expression of an address."""
    kind, number = address.base[0], address.base[4:]
    base = {"s": f"(unsigned char *)slots[{number}]", "k": f"(unsigned char *)(uintptr_t){address.base}"}
    text = base.get(kind, address.base)
    text += f" + {address.offset}" * bool(address.offset)
    return text + f" + {address.count} * {address.stride}" * bool(address.count)
