"""Programs of the classic virtual machine: bytes and text of both kinds of layout, run over functions, and written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright.compat
from tilewright.compat.relay import bytecode as b
from tilewright.compat.relay.bytecode import Bytecode, BytecodeFunction, Instruction, read_bytecode, write_bytecode
from tilewright.compat.relay.bytecode_machine import BytecodeProgram
from tilewright.compat.relay.bytecode_text import bytecode_text
from tilewright.compat.relay.executor import load_packed
from tilewright.compat.runtime.values import ADT
from tilewright.errors import ArtifactError, InputError, ModelError, UnsupportedError

tilewright.compat.install()

import tvm  # noqa: E402
from tvm import relay  # noqa: E402
from tvm.runtime.vm import Executable, VirtualMachine  # noqa: E402

tilewright.compat.uninstall()

SAMPLES = Path(__file__).parents[4] / "shared" / "formats"
RNG = np.random.default_rng(5)


def program(code: list[tuple[int, ...]], constants: Sequence[Any] = (), params: str = "x", **more: Any) -> Bytecode:
    """A program of one function, or with others in `more`."""
    instructions = [Instruction(first, tuple(rest)) for first, *rest in code]
    registers = 1 + max([value for one in instructions for value in one.fields], default=0)
    main = BytecodeFunction("main", params.split(), registers + 8, instructions)
    functions = [main, *more.pop("functions", [])]
    arrays = [np.asarray(value) for value in constants]
    return Bytecode("0.9.0", [f.name for f in functions], arrays, more.pop("packed", []), functions, **more)


@pytest.mark.parametrize("version", ["0.8.0", "0.9.0", "0.16.dev0"])
def test_every_layout_is_written_and_read(version: str) -> None:
    made = program([(b.LOAD_CONST, 0, 1), (b.RET, 1)], [np.arange(3, dtype="float32")], packed=["f"])
    made = replace(made, version=version, packed_attrs={0: {"hash": "12"}})
    found = read_bytecode(write_bytecode(made))
    assert (found.version, found.packed, found.packed_attrs) == (version, ["f"], {0: {"hash": "12"}})
    assert found.functions[0].code == made.functions[0].code
    np.testing.assert_array_equal(found.constants[0], made.constants[0])
    assert write_bytecode(found) == write_bytecode(made)


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="samples of the classic stack's files are beside the checkout")
def test_a_sample_of_the_classic_stack() -> None:
    data = (SAMPLES / "vm.code.ro").read_bytes()
    found = read_bytecode(data)
    assert bytes(write_bytecode(found)) == data
    assert bytecode_text(found) == (SAMPLES / "vm.bytecode.txt").read_text()
    weights = found.constants[2]

    def dense(x: Any, w: Any, out: Any) -> None:
        out.copyfrom(np.maximum(x.numpy() @ w.numpy().T, 0))

    executable = Executable.load_exec(data, {found.packed[0]: dense})
    assert executable.globals == ["main"] and "invoke_packed" in executable.bytecode
    x = RNG.normal(size=(1, weights.shape[1])).astype("float32")
    result = VirtualMachine(executable, tvm.cpu()).invoke("main", x)
    np.testing.assert_allclose(result.numpy(), np.maximum(x @ weights.T, 0), rtol=1e-6)


def fresh(position: int) -> list[Instruction]:
    """Code for an int64 of its own in the register `position`."""
    code = [(b.LOAD_CONSTI, 8, 10), (b.LOAD_CONSTI, 0, 11), (b.ALLOC_STORAGE, 10, 64, 0, 64, 1, 0, 9)]
    code.append((b.ALLOC_TENSOR, 9, 11, 0, 64, 1, 1, position, 1))
    return [Instruction(first, tuple(rest)) for first, *rest in code]


def test_branches_calls_and_data() -> None:
    """The sum of 1 … x by recursion, with a closure and a tuple on the way."""
    body = [Instruction(b.LOAD_CONSTI, (0, 1)), Instruction(b.IF, (0, 1, 1, 2)), Instruction(b.RET, (0,))]
    body += [Instruction(b.LOAD_CONSTI, (1, 2)), *fresh(3), Instruction(b.MOVE, (3, 4))]
    body += [Instruction(b.INVOKE_PACKED, (0, 3, 1, 0, 2, 4)), Instruction(b.INVOKE, (1, 1, 5, 4)), *fresh(6)]
    body += [Instruction(b.INVOKE_PACKED, (1, 3, 1, 0, 5, 6)), Instruction(b.RET, (6,))]
    code = [(b.ALLOC_CLOSURE, 1, 0, 1), (b.INVOKE_CLOSURE, 1, 1, 2, 0), (b.ALLOC_ADT, 7, 2, 3, 0, 2), (b.GET_TAG, 3, 4)]
    code += [(b.GET_FIELD, 3, 1, 5), (b.ALLOC_ADT, 3, 3, 6, 4, 5, 3), (b.GOTO, 1), (b.RET, 6)]
    functions = {
        "minus": lambda x, y, out: out.copyfrom(x.numpy() - y.numpy()),
        "plus": lambda x, y, out: out.copyfrom(x.numpy() + y.numpy()),
    }
    down = BytecodeFunction("down", ["n"], 12, body)
    made = read_bytecode(write_bytecode(program(code, functions=[down], packed=["minus", "plus"])))
    result = BytecodeProgram(made, functions)(np.array([10], np.int64))
    assert isinstance(result, ADT) and result.tag == 3
    assert [int(result[0][0]), int(result[1][0]), result[2].tag] == [7, 55, 7]
    assert "invoke_closure $2 $1($0)" in bytecode_text(made)


def test_shapes_that_are_known_when_it_runs() -> None:
    code = [(b.SHAPE_OF, 0, 1), (b.LOAD_CONST, 0, 2), (b.LOAD_CONST, 1, 3), (b.ALLOC_STORAGE, 2, 64, 2, 32, 1, 0, 4)]
    code += [(b.ALLOC_TENSOR_REG, 4, 3, 1, 2, 32, 1, 5), (b.INVOKE_PACKED, 0, 2, 1, 0, 5), (b.LOAD_CONST, 2, 6)]
    code += [(b.RESHAPE_TENSOR, 5, 6, 7), (b.DEVICE_COPY, 7, 1, 1, 8), (b.KILL_REGISTER, 5), (b.RET, 8)]
    made = program(code, [np.int64(24), np.int64(0), np.array([3, 2])], packed=["twice"])
    x = RNG.random((2, 3), np.float32)
    result = BytecodeProgram(made, {"twice": lambda a, out: out.copyfrom(2 * a.numpy())})(x)
    np.testing.assert_array_equal(result, 2 * x.reshape(3, 2))
    small = replace(made, constants=[np.asarray(np.int64(23)), *made.constants[1:]])
    with pytest.raises(ModelError, match="24 bytes into a storage of 23"):
        BytecodeProgram(small, {"twice": lambda a, out: None})(x)


def test_what_is_wrong_is_told() -> None:
    made = program([(b.FATAL,)])
    with pytest.raises(ModelError, match="no case matched"):
        BytecodeProgram(made, {})(np.zeros(1))
    with pytest.raises(InputError, match="takes 1 values, 2 given"):
        BytecodeProgram(made, {})(np.zeros(1), np.zeros(1))
    data = bytes(write_bytecode(made))
    for damaged in (b"", data[:-1], data + b"\0", data[:-8] + b"\x63" + data[-7:], data[:30]):
        with pytest.raises(ArtifactError):
            read_bytecode(damaged)
    with pytest.raises(ArtifactError, match="neither bytecode"):
        x = relay.var("x", shape=(2,))
        Executable.load_exec(b"\0", relay.vm.compile(tvm.IRModule.from_expr(relay.Function([x], x + x)), "llvm"))


def compiled() -> tuple[Any, Any]:
    x, w = relay.var("x", shape=(2, 3, 4)), relay.var("w", shape=(5, 4))
    y = relay.nn.dense(relay.reshape(x, (6, 4)), w)
    mod = tvm.IRModule.from_expr(relay.Function([x, w], relay.Tuple([relay.nn.softmax(y), relay.nn.relu(y)])))
    weights = RNG.normal(size=(5, 4)).astype("float32")
    return relay.vm.compile(mod, "llvm", params={"w": weights}), RNG.normal(size=(2, 3, 4)).astype("float32")


def test_tuples_and_lists_of_one_element_as_arguments() -> None:
    """A parameter of a tuple takes one, of fields of any shapes; a scalar comes from an array or list of it alone."""
    fields = relay.TupleType([relay.TensorType((1, 4, 2)), relay.TensorType((1, 2, 10))])
    pair, y = relay.var("pair", type_annotation=fields), relay.var("y", "float32")
    first = relay.Function([pair], relay.reshape(relay.TupleGetItem(pair, 0), (1, -1)))
    arrays = tuple(RNG.normal(size=shape).astype("float32") for shape in ((1, 4, 2), (1, 2, 10)))
    machine = VirtualMachine(relay.vm.compile(tvm.IRModule.from_expr(first), "llvm"), tvm.cpu())
    np.testing.assert_array_equal(machine.invoke("main", arrays).numpy(), arrays[0].reshape(1, -1))
    more = tvm.IRModule.from_expr(relay.Function([y], y + relay.const(1.0)))
    machine = VirtualMachine(relay.vm.compile(more, "llvm"), tvm.cpu())
    for given in (np.array(2.0, "float32"), np.array([2.0], "float32"), [np.array(2.0, "float32")]):
        assert float(machine.invoke("main", given).numpy()) == 3.0


def test_a_compiled_program_is_saved_as_bytecode_over_a_library(tmp_path: Path) -> None:
    executable, x = compiled()
    code, library = executable.save()
    library.export_library(tmp_path / "lib.so")
    want = VirtualMachine(executable, tvm.cpu()).invoke("main", x)
    found = read_bytecode(code)
    assert list(found.functions[0].params) == ["x"] and found.functions[0].code[-1].operation == b.RET
    for lib in (library, tvm.runtime.load_module(tmp_path / "lib.so"), load_packed(tmp_path / "lib.so")):
        machine = VirtualMachine(Executable.load_exec(code, lib), tvm.cpu())
        for one, other in zip(machine.invoke("main", x), want, strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-6)
    machine.set_input("main", x=x)
    np.testing.assert_allclose(machine.run()[1].numpy(), want[1].numpy(), rtol=1e-6)


def test_another_program_than_that_of_the_library_is_refused() -> None:
    executable, _ = compiled()
    y = relay.var("y", shape=(3,))
    other = relay.vm.compile(tvm.IRModule.from_expr(relay.Function([y], y * y)), "llvm")
    with pytest.raises(ArtifactError, match=r"of a program of \['y'\], the library of one of \['x'\]"):
        Executable.load_exec(other.save()[0], executable)


def test_programs_with_control_flow_have_no_bytecode_here() -> None:
    x, c = relay.var("x", shape=(3,)), relay.var("c", shape=(), dtype="bool")
    mod = tvm.IRModule.from_expr(relay.Function([c, x], relay.If(c, x + x, x * x)))
    executable = relay.vm.compile(mod, "llvm")
    with pytest.raises(UnsupportedError, match="without control flow"):
        _ = executable.bytecode
    code, library = executable.save()
    machine = VirtualMachine(Executable.load_exec(code, library), tvm.cpu())
    np.testing.assert_array_equal(machine.invoke("main", True, np.ones(3, np.float32)).numpy(), np.full(3, 2.0))
