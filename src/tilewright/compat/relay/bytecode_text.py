"""Programs of the classic virtual machine as text, one instruction a line: its numbers, and what they mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.compat.relay import bytecode as b
from tilewright.compat.relay.bytecode import Bytecode, Instruction

_WIDTH = 40


def bytecode_text(program: Bytecode) -> str:
    """The text of all functions of a program."""
    lines = []
    for number, function in enumerate(program.functions):
        lines.append(f"VM Function[{number}]: {function.name}({', '.join(function.params)})")
        lines += [f"# reg file size = {function.registers}", f"# instruction count = {len(function.code)}"]
        lines.append("opcode, fields # inst(text):")
        for position, one in enumerate(function.code):
            numbers = f"{position:2}: {one.operation} " + "".join([f"{value} " for value in one.fields])
            lines.append(f"{numbers:<{_WIDTH}}  # {instruction_text(one, program)}")
        lines.append("")
    return "\n".join([*lines, ""])


def instruction_text(one: Instruction, program: Bytecode) -> str:
    """The text of one instruction."""
    if one.operation == b.LOAD_CONST:
        constant, *_, result = one.fields  # from 0.12 on with the device between them
        devices = program.constant_devices
        return f"load_const ${result} Const[{constant}] {devices[constant] if constant < len(devices) else 0}"
    return _TEXTS[one.operation](one.fields)


def _registers(values: Sequence[int], between: str) -> str:
    return "$" + between.join(map(str, values))


def _sizes(values: Sequence[int]) -> str:
    return f"[{', '.join(map(str, values))}]"


def _dtype(code: int, bits: int, lanes: int) -> str:
    kind = {0: "int", 1: "uint", 2: "float", 3: "handle", 4: "bfloat"}.get(code, f"custom[{code}]")
    name = "bool" if (code, bits) == (1, 1) else f"{kind}{bits}"
    return name if lanes == 1 else f"{name}x{lanes}"


def _packed(f: Sequence[int]) -> str:
    number, count, outputs, *args = f
    given, made = args[: count - outputs], args[count - outputs :]
    return f"invoke_packed PackedFunc[{number}] (in: {_registers(given, ', $')}, out: {_registers(made, ', $')})"


def _storage(f: Sequence[int]) -> str:
    size, alignment, code, bits, lanes, device = f[:6]
    if len(f) == 7:
        return f"alloc_storage ${f[6]} ${size} {alignment} {_dtype(code, bits, lanes)} {device}"
    rank, result, *shape = f[6:]
    what = _sizes(shape) if rank else f"${size} {alignment}"
    return f"alloc_storage ${result} {what} {_dtype(code, bits, lanes)} {device}"


_TEXTS: dict[int, Callable[[Sequence[int]], str]] = {
    b.MOVE: lambda f: f"move ${f[1]} ${f[0]}",
    b.RET: lambda f: f"ret ${f[0]}",
    b.INVOKE: lambda f: f"invoke ${f[2]} VMFunc[{f[0]}]({_registers(f[3:], ',$')})",
    b.INVOKE_CLOSURE: lambda f: f"invoke_closure ${f[2]} ${f[0]}({_registers(f[3:], ',$')})",
    b.INVOKE_PACKED: _packed,
    b.ALLOC_TENSOR: lambda f: f"alloc_tensor ${f[6]} ${f[0]} ${f[1]} {_sizes(f[7:])} {_dtype(*f[2:5])}",
    b.ALLOC_TENSOR_REG: lambda f: f"alloc_tensor_reg ${f[6]} ${f[0]} ${f[1]} ${f[2]} {_dtype(*f[3:6])}",
    b.ALLOC_ADT: lambda f: f"alloc_data ${f[2]} tag({f[0]}) [{_registers(f[3:], ',$')}]",
    b.ALLOC_CLOSURE: lambda f: f"alloc_closure ${f[2]} VMFunc[{f[0]}]({_registers(f[3:], ',$')})",
    b.GET_FIELD: lambda f: f"get_field ${f[2]} ${f[0]}[{f[1]}]",
    b.IF: lambda f: f"if ${f[0]} ${f[1]} {f[2]} {f[3]}",
    b.GOTO: lambda f: f"goto {f[0]}",
    b.GET_TAG: lambda f: f"get_tag ${f[1]} ${f[0]}",
    b.LOAD_CONSTI: lambda f: f"load_consti ${f[1]} {f[0]}",
    b.FATAL: lambda f: "fatal",
    b.ALLOC_STORAGE: _storage,
    b.SHAPE_OF: lambda f: f"shape_of ${f[1]} ${f[0]}",
    b.RESHAPE_TENSOR: lambda f: f"reshape_tensor ${f[2]} ${f[0]} ${f[1]}",
    b.DEVICE_COPY: lambda f: f"device_copy ${f[3]} ${f[0]} {f[2]} {f[1]}",
    b.KILL_REGISTER: lambda f: f"kill_register ${f[0]}",
}
