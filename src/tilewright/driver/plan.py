"""The execution plan of a fused `main`: its kernel calls over (space, offset, table entries), from the memory plan.

%1 = fn1(%x); fn2(%1)        ->        k1(input 0, arena + 0); k2(arena + 0, output 0)

With fixed sizes all offsets are numbers. With symbolic sizes the ``dynamic`` part of the plan says how a run computes
them (`runtime.shape_program`), and calls read them from a table:

    dimensions | offsets of the arena's buffers | offset of the workspace | scratch stride | computed sizes and offsets

The plan says nothing of how a device runs it: every backend makes its code from it (`backend`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from tilewright.backend import Backend
from tilewright.backend.kernels import CompiledKernels, Workspace
from tilewright.codegen.size_data import size_data
from tilewright.errors import ModelError, UnsupportedError
from tilewright.relay.ir.expr import Call, Constant, Function
from tilewright.relay.ir.symbolic import close_dims, size_vars
from tilewright.relay.ir.type import Any as AnyDim
from tilewright.relay.ir.type import Dim, TensorType, TupleType, Type, tensor_types
from tilewright.relay.ir.visitor import calls, post_order
from tilewright.relay.op.assumptions import assumptions
from tilewright.relay.op.cost import flops, moved_bytes, narrow_operands
from tilewright.relay.transform.memory.plan_memory import KernelMemory, MemoryPlan, Storage, Where
from tilewright.runtime.manifest import Manifest, Weight
from tilewright.runtime.plan import (
    COPY,
    ArenaBuffer,
    CheckedAxis,
    EqualSizes,
    ExecutionPlan,
    KernelCall,
    Location,
    SymbolicDim,
    SymbolicSizes,
)
from tilewright.runtime.signature import TensorSpec, ValueSpec
from tilewright.support.dtype import DType
from tilewright.support.version import version
from tilewright.tir.expr import Expr, SizeVar

#: Bytes to which constants are aligned in the section of weights, as the artifact file wants it.
WEIGHT_ALIGNMENT = 64


@dataclass(frozen=True)
class Kernels:
    """The compiled kernels: the name of each call's, the scratch memory and the choice of each."""

    names: Mapping[Call, str]
    workspaces: Mapping[str, Workspace]
    choices: Mapping[str, Mapping[str, Any]]
    overlaps: Mapping[str, Mapping[tuple[int, int], int]] | None = None

    @staticmethod
    def of(names: Mapping[Call, str], objects: Iterable[CompiledKernels]) -> Kernels:
        """From the objects that define them."""
        workspaces: dict[str, Workspace] = {}
        choices: dict[str, Mapping[str, Any]] = {}
        overlaps: dict[str, Mapping[tuple[int, int], int]] | None = None
        for compiled in objects:
            workspaces.update(compiled.workspaces)
            choices.update(compiled.choices)
            if compiled.overlaps is not None:
                overlaps = {**(overlaps or {}), **compiled.overlaps}
        return Kernels(names, workspaces, choices, overlaps)

    def workspace(self, call: Call) -> Workspace:
        """The scratch memory of the kernel of a call."""
        return self.workspaces.get(self.names[call], Workspace())

    def memory(self, call: Call) -> KernelMemory:
        """The scratch memory of the kernel of a call, of known size, and what its results may share with inputs."""
        assert self.overlaps is not None
        if call not in self.names:
            return KernelMemory()  # a concatenation that needs no kernel
        shared = self.workspace(call).shared
        assert isinstance(shared, int)
        return KernelMemory(shared, self.overlaps.get(self.names[call], {}))


def execution_plan(
    name: str,
    main: Function,
    memory: MemoryPlan,
    kernels: Kernels,
    constants: Mapping[Constant, int],
) -> ExecutionPlan:
    """The plan `name` that runs `main` in `memory`; `constants` are byte offsets in the section of weights."""
    table = _Table(main, memory) if memory.buffers or size_vars(main) else None
    locations = _Locations(memory, constants, table)
    calls_ = [locations.call(call, kernels) for call in memory.order]
    calls_ += [locations.copy(source, index) for source, index in memory.copies]
    outputs = tensor_types(main.body.checked_type)
    used = [kernels.workspace(call) for call in memory.order]
    private, shared = (
        _aligned(max((size for size in sizes if isinstance(size, int)), default=0), memory.alignment)
        for sizes in ([w.private for w in used], [w.shared for w in used])
    )
    fixed = table is None
    shared = shared if memory.scratch is None else 0  # part of the arena
    return ExecutionPlan(
        entry=name,
        inputs=input_specs(main),
        outputs=tuple(tensor_spec(f"output{i}", t) for i, t in enumerate(outputs)),
        arena_bytes=_aligned(memory.arena_bytes, memory.alignment) + shared if fixed else 0,
        worker_workspace_bytes=private if fixed else 0,
        dynamic=None if table is None else table.sizes(outputs, shared, private),
        kernels=tuple(calls_),
        alignment=memory.alignment,
    )


class _Table:
    """The table of one segment with symbolic sizes: numbers of entries, and the expressions behind them."""

    def __init__(self, main: Function, memory: MemoryPlan) -> None:
        self.main, self.memory = main, memory
        self.names: dict[Any, str] = {}
        for var in size_vars(main):
            stem, count = var.name, 1
            while (stem if count == 1 else f"{stem}_{count}") in self.names.values():
                count += 1
            self.names[var] = stem if count == 1 else f"{stem}_{count}"
        self.sources, self.checks = self._read_inputs()
        self.workspace_entry = len(self.sources) + len(memory.buffers)
        self.stride_entry = self.workspace_entry + 1
        self.values: dict[Any, int] = {}
        self.shared: list[Any] = []
        self.private: list[Any] = []
        self.equal: dict[tuple[Dim, Dim], str] = {}
        for call in calls(main.body):  # those that move no bytes too, which are no kernel
            assert isinstance(call.op, Function)
            for a, b, where in assumptions(call.op, call.args):
                self.equal.setdefault((a, b), where)

    def _counts(self) -> list[Dim]:
        """The elements of each tensor of symbolic size, also of those within kernels, which nobody keeps."""
        bodies = [self.main.body, *(call.op.body for call in calls(self.main.body) if isinstance(call.op, Function))]
        nodes = [*self.main.params, *(node for body in bodies for node in post_order(body))]
        types = [type_ for node in nodes for type_ in tensor_types(node.checked_type)]
        return list(dict.fromkeys(type_.size for type_ in types if not type_.is_static))

    def _read_inputs(self) -> tuple[dict[Any, tuple[int, int]], list[tuple[int, int, Dim]]]:
        """The input and axis that each variable is read off, as (input, axis), and the other sizes that must agree with
        those.
        """
        sources: dict[Any, tuple[int, int]] = {}
        checks: list[tuple[int, int, Dim]] = []
        for index, param in enumerate(self.main.params):
            type_ = param.checked_type
            assert isinstance(type_, TensorType)
            for axis, dim in enumerate(type_.shape):
                if isinstance(dim, SizeVar) and dim not in sources:
                    sources[dim] = (index, axis)
                elif isinstance(dim, Expr):
                    checks.append((index, axis, dim))
        missing = [name for var, name in self.names.items() if var not in sources]
        if missing:
            raise UnsupportedError(
                f"no input has the dimension {missing[0]} by itself, so that a run cannot read its value; "
                f"name a dimension of an input so"
            )
        return sources, checks

    def entry(self, size: Dim) -> int:
        """The number of the entry that holds `size`: a dimension's own, or one that is computed."""
        if size in self.sources:
            return list(self.sources).index(size)
        return self.stride_entry + 1 + self.values.setdefault(size, len(self.values))

    def buffer_entry(self, number: int) -> int:
        """The number of the entry with the offset of a buffer of the arena."""
        return len(self.sources) + number

    def sizes(self, outputs: Sequence[TensorType], shared: int, scratch: int) -> SymbolicSizes:
        """The manifest's ``dynamic`` part."""

        def plain(size: Dim) -> Any:
            return size_data(size, self.names)

        return SymbolicSizes(
            dims=tuple(SymbolicDim(name=self.names[v], input=i, axis=a) for v, (i, a) in self.sources.items()),
            checks=tuple(CheckedAxis(input=i, axis=axis, value=plain(dim)) for i, axis, dim in self.checks),
            buffers=tuple(ArenaBuffer(bytes=plain(b.nbytes), first=b.first, last=b.last) for b in self.memory.buffers),
            values=tuple(plain(size) for size in self.values),
            equal=tuple(EqualSizes(a=plain(a), b=plain(b), where=where) for (a, b), where in self.equal.items()),
            workspace_bytes=(shared, *self.shared),
            worker_workspace_bytes=(scratch, *self.private),
            output_shapes=tuple(tuple(plain(dim) for dim in type_.shape) for type_ in outputs),
            elements=tuple(plain(count) for count in self._counts()),
        )


@dataclass
class _Locations:
    """The locations of values, and the calls that take them."""

    memory: MemoryPlan
    constants: Mapping[Constant, int]
    table: _Table | None

    def of(self, storage: Storage) -> Location:
        """The location of one tensor."""
        if storage.where is Where.CONSTANT:
            return Location("weights", self.constants[self.memory.constants[storage.position]])
        if storage.buffer is None:
            return Location(storage.where.value, storage.position)
        assert self.table is not None
        slots = [self.table.buffer_entry(storage.buffer)]
        if isinstance(storage.position, int):
            return Location("arena", storage.position, tuple(slots))
        return Location("arena", 0, (*slots, self.table.entry(storage.position)))

    def call(self, call: Call, kernels: Kernels) -> KernelCall:
        """The call of a kernel: its tensors, its dimensions, its scratch memory; what it costs and what was chosen."""
        assert isinstance(call.op, Function)
        name = kernels.names[call]
        workspace = kernels.workspace(call)
        arguments = [self.of(storage) for storage in self.memory.arguments(call)]
        if self.table is not None:
            _, dims = close_dims(call.op)
            arguments += [Location("table", self.table.entry(dim)) for dim in dims]
            self._measure(workspace, dims, self.table)
        if workspace.is_needed and self.table is not None:
            arguments += [Location("arena", 0, (self.table.workspace_entry,)), Location("scratch", 0)]
        elif workspace.is_needed:
            end = _aligned(self.memory.arena_bytes, self.memory.alignment)
            own = end if self.memory.scratch is None else self.memory.scratch.get(call, 0)
            arguments += [Location("arena", own), Location("scratch", 0)]
        cost = {} if self.table is not None else {"flops": flops(call), "bytes": moved_bytes(call)}
        choice = kernels.choices.get(name, {})
        if choice and (narrow := narrow_operands(call)):
            choice = {**choice, "operands": narrow}
        return KernelCall(name=name, source=call.span, args=tuple(arguments), choice=choice, **cost)

    def copy(self, source: Storage, output: int) -> KernelCall:
        """The call that copies a value into an output."""
        arguments = [self.of(source), Location("output", output)]
        if isinstance(source.nbytes, int):
            return KernelCall(name=f"{COPY}{source.nbytes}", args=tuple(arguments))
        assert self.table is not None
        return KernelCall(name=f"{COPY}bytes", args=(*arguments, Location("table", self.table.entry(source.nbytes))))

    def _measure(self, workspace: Workspace, dims: Sequence[Dim], table: _Table) -> None:
        """Note symbolic sizes of scratch memory in terms of the segment's dimensions."""
        mapping = dict(zip(workspace.scalars, dims))
        for size, noted in ((workspace.shared, table.shared), (workspace.private, table.private)):
            if isinstance(size, Expr):
                noted.append(substituted_data(size, mapping, table.names))


def substituted_data(size: Expr, mapping: Mapping[Any, Dim], names: Mapping[Any, str]) -> Any:
    """`size`, whose variables stand for the dimensions `mapping`, in plain data."""
    inner = {var: f"{index}" for index, var in enumerate(mapping)}
    values = [size_data(dim, dict(names)) for dim in mapping.values()]

    def put(data: Any) -> Any:
        if isinstance(data, str):
            return values[int(data)]
        return (data[0], *map(put, data[1:])) if isinstance(data, tuple) else data

    return put(size_data(size, inner))


def common_manifest(main: Function, backend: Backend) -> dict[str, Any]:
    """The fields by which every kind of executable says what made it, for which machine, its inputs and outputs."""
    leaves = _leaves(main.body.checked_type)
    names = list(main.attrs.get("output_names", ())) or [f"output{i}" for i in range(len(leaves))]
    if len(names) != len(leaves):  # a run would write behind what it has for its outputs
        raise ModelError(f"the attribute output_names of main has {len(names)} names for {len(leaves)} outputs")
    return {
        "tilewright_version": version(),
        **backend.facts(),
        "inputs": input_specs(main),
        "outputs": tuple(tensor_spec(name, type_) for name, type_ in zip(names, leaves)),
    }


def model_manifest(
    plan: ExecutionPlan, main: Function, backend: Backend, constants: Mapping[Constant, int]
) -> Manifest:
    """The manifest of a model that is one segment."""
    own = {one.name: getattr(plan, one.name) for one in fields(plan)}
    return Manifest(**(own | common_manifest(main, backend)), weights=weights_manifest(constants))


def _leaves(type_: Type) -> list[Type]:
    """The types in nested tuples from left to right."""
    return [leaf for field in type_.fields for leaf in _leaves(field)] if isinstance(type_, TupleType) else [type_]


def input_specs(main: Function) -> tuple[TensorSpec, ...]:
    """The parameters of `main`; of several with one name, those after the first get a number: x, x_1, x_2."""
    names: dict[str, None] = {}
    for param in main.params:
        spellings = itertools.chain([param.name], (f"{param.name}_{number}" for number in itertools.count(1)))
        names[next(name for name in spellings if name not in names)] = None
    return tuple(tensor_spec(name, param.checked_type) for name, param in zip(names, main.params, strict=True))


def tensor_spec(name: str, type_: Type) -> TensorSpec:
    """An input or output of the model; a symbolic dimension is its text, an unknown one None."""
    if not isinstance(type_, TensorType):
        return ValueSpec(name, (), DType("handle"), str(type_))
    shape = [dim if isinstance(dim, int) else None if isinstance(dim, AnyDim) else str(dim) for dim in type_.shape]
    return TensorSpec(name, tuple(shape), DType(type_.dtype))


def unique_constants(constants: Sequence[Constant], alignment: int = WEIGHT_ALIGNMENT) -> dict[Constant, int]:
    """The byte offset of each constant in the weights section, a multiple of `alignment`; once for each node."""
    found = dict.fromkeys(constants)
    sizes = np.array([_aligned(c.data.nbytes, alignment) for c in found], dtype=np.int64)
    return {constant: int(offset) for constant, offset in zip(found, np.cumsum(sizes) - sizes)}


def weights_manifest(constants: Mapping[Constant, int]) -> tuple[Weight, ...]:
    """The manifest's list of what the weights section holds."""
    return tuple(
        Weight(name=f"constant{i}", offset=offset, bytes=constant.data.nbytes)
        for i, (constant, offset) in enumerate(constants.items())
    )


def _aligned(nbytes: int, alignment: int = WEIGHT_ALIGNMENT) -> int:
    return -(-nbytes // alignment) * alignment
