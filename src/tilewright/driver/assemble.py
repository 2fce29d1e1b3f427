"""A planned segment and its kernels to a run loop and a manifest: where every argument of every call is found.

With fixed sizes all places are numbers in the run loop. With symbolic sizes the manifest's ``dynamic`` part says how
the run time finds them (`runtime.shape_program`), and the run loop reads them from a table:

    dimensions | places of the arena's buffers | place of the workspace | scratch stride | computed sizes and offsets
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from importlib import metadata
from typing import Any

import numpy as np

from tilewright.codegen.run_loop import KernelCall, Location, build_run_loop
from tilewright.codegen.size_data import size_data
from tilewright.driver.copy_kernel import copy_kernel
from tilewright.errors import ModelError, UnsupportedError
from tilewright.relay.ir.expr import Call, Constant, Function
from tilewright.relay.ir.symbolic import close_dims, size_vars
from tilewright.relay.ir.type import Any as AnyDim
from tilewright.relay.ir.type import Dim, TensorType, TupleType, Type, tensor_types
from tilewright.relay.ir.visitor import calls, post_order
from tilewright.relay.op.assumptions import assumptions
from tilewright.relay.op.cost import flops, moved_bytes
from tilewright.relay.transform.memory.plan_memory import MemoryPlan, Storage, Where
from tilewright.runtime.manifest import (
    ArenaBuffer,
    CheckedAxis,
    EqualSizes,
    Kernel,
    Manifest,
    SegmentManifest,
    SymbolicDim,
    SymbolicSizes,
    Weight,
)
from tilewright.runtime.signature import TensorSpec, ValueSpec
from tilewright.support.dtype import DType
from tilewright.target import Target
from tilewright.tir.expr import Expr, SizeVar, Var
from tilewright.tir.size_hint import size_hint
from tilewright.tir.stmt import PrimFunc
from tilewright.tir.transform.run_regions import Kind, kind_of

ALIGNMENT = 64


@dataclass(frozen=True)
class Workspace:
    """Scratch memory of a kernel in bytes, shared and of each worker; symbolic in the kernel's scalar parameters.

    `kind` says how workers share the kernel.
    """

    shared: Dim
    private: Dim
    scalars: tuple[Var, ...]
    kind: Kind

    @staticmethod
    def of(func: PrimFunc) -> Workspace:
        """What `func` needs."""
        sizes = [func.attrs.get(key, 0) for key in ("workspace_bytes", "worker_workspace_bytes")]
        return Workspace(sizes[0], sizes[1], tuple(p for p in func.params if isinstance(p, Var)), kind_of(func))

    @property
    def is_needed(self) -> bool:
        """True if the kernel takes the two pointers."""
        return isinstance(self.shared, Expr) or isinstance(self.private, Expr) or bool(self.shared or self.private)


@dataclass(frozen=True)
class CompiledObject:
    """Object code of some kernels, the scratch memory and schedule of each, and the seconds each stage took."""

    code: bytes
    workspaces: dict[str, Workspace]
    choices: dict[str, dict[str, Any]]
    seconds: dict[str, float]


@dataclass(frozen=True)
class Kernels:
    """What is known of the compiled kernels: the name of each call's, the scratch memory and the choice of each."""

    names: Mapping[Call, str]
    workspaces: Mapping[str, Workspace]
    choices: Mapping[str, dict[str, Any]]

    @staticmethod
    def of(names: Mapping[Call, str], objects: Iterable[CompiledObject]) -> Kernels:
        """From the objects that define them."""
        workspaces: dict[str, Workspace] = {}
        choices: dict[str, dict[str, Any]] = {}
        for compiled in objects:
            workspaces.update(compiled.workspaces)
            choices.update(compiled.choices)
        return Kernels(names, workspaces, choices)


@dataclass
class Segment:
    """A run loop, the copy kernels it calls beside the others, and the manifest of the segment.

    `order` are the numbers of the arena's buffers of symbolic size, the ones that are likely largest first.
    """

    loop: PrimFunc
    copies: list[PrimFunc]
    manifest: SegmentManifest
    order: tuple[int, ...]


def assemble(
    name: str, main: Function, plan: MemoryPlan, kernels: Kernels, constants: Mapping[Constant, int]
) -> Segment:
    """The segment `name` that runs `main` by `plan`; `constants` are byte offsets in the section of weights."""
    table = _Table(main, plan) if plan.buffers or size_vars(main) else None
    places = _Places(plan, constants, table)
    kernel_calls = [places.call(call, kernels) for call in plan.order]
    costs = [_cost(call, kernels.choices.get(kernels.names[call]), table) for call in plan.order]
    copies = [copy_kernel(source.nbytes if isinstance(source.nbytes, int) else None) for source, _ in plan.copies]
    for func, (source, index) in zip(copies, plan.copies, strict=True):
        kernel_calls.append(places.copy(func.name, source, index))
        costs.append({})
    outputs = tensor_types(main.body.checked_type)
    used = [kernels.workspaces[kernels.names[call]] for call in plan.order]
    scratch = _aligned(max((w.private for w in used if isinstance(w.private, int)), default=0))
    shared = _aligned(max((w.shared for w in used if isinstance(w.shared, int)), default=0))
    manifest = SegmentManifest(
        entry=name,
        inputs=input_specs(main),
        outputs=tuple(tensor_spec(f"output{i}", t) for i, t in enumerate(outputs)),
        arena_bytes=0 if table is not None else _aligned(plan.arena_bytes) + shared,
        worker_workspace_bytes=0 if table is not None else scratch,
        dynamic=None if table is None else table.sizes(outputs, shared, scratch),
        kernels=tuple(
            Kernel(
                name=c.kernel, source=c.source, args=tuple((a.space, a.offset, *a.slots) for a in c.arguments), **cost
            )
            for c, cost in zip(kernel_calls, costs, strict=True)
        ),
    )
    stride = table.stride_entry if table is not None else None
    loop = build_run_loop(kernel_calls, len(main.params), len(outputs), scratch, name, stride)
    order = sorted(range(len(plan.buffers)), key=lambda i: (-size_hint(plan.buffers[i].nbytes), plan.buffers[i].first))
    return Segment(loop, copies, manifest, tuple(order))


class _Table:
    """The table of one segment with symbolic sizes: numbers of entries, and the expressions behind them."""

    def __init__(self, main: Function, plan: MemoryPlan) -> None:
        self.main, self.plan = main, plan
        self.names: dict[Any, str] = {}
        for var in size_vars(main):
            stem, count = var.name, 1
            while (stem if count == 1 else f"{stem}_{count}") in self.names.values():
                count += 1
            self.names[var] = stem if count == 1 else f"{stem}_{count}"
        self.sources, self.checks = self._read_inputs()
        self.workspace_entry = len(self.sources) + len(plan.buffers)
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
        """Where each variable is read off, as (input, axis), and which other sizes must agree with those."""
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
                f"the dimension {missing[0]} is no input's whole dimension, so its value cannot be known; "
                f"give an input a dimension of that name"
            )
        return sources, checks

    def entry(self, size: Dim) -> int:
        """The number of the entry that holds `size`: a dimension's own, or one that is computed."""
        if size in self.sources:
            return list(self.sources).index(size)
        return self.stride_entry + 1 + self.values.setdefault(size, len(self.values))

    def buffer_entry(self, number: int) -> int:
        """The number of the entry with the place of a buffer of the arena."""
        return len(self.sources) + number

    def sizes(self, outputs: Sequence[TensorType], shared: int, scratch: int) -> SymbolicSizes:
        """The manifest's ``dynamic`` part."""

        def plain(size: Dim) -> Any:
            return size_data(size, self.names)

        return SymbolicSizes(
            dims=tuple(SymbolicDim(name=self.names[v], input=i, axis=a) for v, (i, a) in self.sources.items()),
            checks=tuple(CheckedAxis(input=i, axis=axis, value=plain(dim)) for i, axis, dim in self.checks),
            buffers=tuple(ArenaBuffer(bytes=plain(b.nbytes), first=b.first, last=b.last) for b in self.plan.buffers),
            values=tuple(plain(size) for size in self.values),
            equal=tuple(EqualSizes(a=plain(a), b=plain(b), where=where) for (a, b), where in self.equal.items()),
            workspace_bytes=(shared, *self.shared),
            worker_workspace_bytes=(scratch, *self.private),
            output_shapes=tuple(tuple(plain(dim) for dim in type_.shape) for type_ in outputs),
            elements=tuple(plain(count) for count in self._counts()),
        )


@dataclass
class _Places:
    """Where arguments are found."""

    plan: MemoryPlan
    constants: Mapping[Constant, int]
    table: _Table | None

    def location(self, storage: Storage) -> Location:
        """The place of one tensor."""
        if storage.where is Where.CONSTANT:
            return Location("weights", self.constants[self.plan.constants[storage.position]])
        if storage.buffer is None:
            return Location(storage.where.value, storage.position)
        assert self.table is not None
        slots = [self.table.buffer_entry(storage.buffer)]
        if isinstance(storage.position, int):
            return Location("arena", storage.position, tuple(slots))
        return Location("arena", 0, (*slots, self.table.entry(storage.position)))

    def call(self, call: Call, kernels: Kernels) -> KernelCall:
        """The call of a kernel: its tensors, its dimensions, its scratch memory."""
        assert isinstance(call.op, Function)
        name = kernels.names[call]
        workspace = kernels.workspaces[name]
        arguments = [self.location(storage) for storage in self.plan.arguments(call)]
        if self.table is not None:
            _, dims = close_dims(call.op)
            arguments += [Location("table", self.table.entry(dim)) for dim in dims]
            self._measure(workspace, dims, self.table)
        if workspace.is_needed and self.table is not None:
            arguments += [Location("arena", 0, (self.table.workspace_entry,)), Location("scratch", 0)]
        elif workspace.is_needed:
            arguments += [Location("arena", _aligned(self.plan.arena_bytes)), Location("scratch", 0)]
        return KernelCall(name, tuple(arguments), call.span, workspace.kind)

    def copy(self, kernel: str, source: Storage, output: int) -> KernelCall:
        """The call that copies a value into an output."""
        arguments = [self.location(source), Location("output", output)]
        if not isinstance(source.nbytes, int):
            assert self.table is not None
            arguments.append(Location("table", self.table.entry(source.nbytes)))
        return KernelCall(kernel, tuple(arguments))

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


def common_manifest(main: Function, target: Target) -> dict[str, Any]:
    """The fields by which every kind of executable says what made it, for which machine, its inputs and outputs."""
    leaves = _leaves(main.body.checked_type)
    names = list(main.attrs.get("output_names", ())) or [f"output{i}" for i in range(len(leaves))]
    if len(names) != len(leaves):  # a run would write behind what it has for its outputs
        raise ModelError(f"the attribute output_names of main has {len(names)} names for {len(leaves)} outputs")
    return {
        "tilewright_version": metadata.version("tilewright"),
        "target": str(target),
        "arch": target.architecture,
        "cpu_features": tuple(target.features),
        "inputs": input_specs(main),
        "outputs": tuple(tensor_spec(name, type_) for name, type_ in zip(names, leaves)),
    }


def model_manifest(
    segment: SegmentManifest, main: Function, target: Target, constants: Mapping[Constant, int]
) -> Manifest:
    """The manifest of a model that is one segment."""
    own = {one.name: getattr(segment, one.name) for one in fields(segment)}
    return Manifest(**(own | common_manifest(main, target)), weights=weights_manifest(constants))


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


def unique_constants(constants: Sequence[Constant]) -> dict[Constant, int]:
    """The byte offset of each constant in the weights section, each on a cache line; once for each node."""
    found = dict.fromkeys(constants)
    sizes = np.array([_aligned(c.data.nbytes) for c in found], dtype=np.int64)
    return {constant: int(offset) for constant, offset in zip(found, np.cumsum(sizes) - sizes)}


def weights_manifest(constants: Mapping[Constant, int]) -> tuple[Weight, ...]:
    """The manifest's list of what the weights section holds."""
    return tuple(
        Weight(name=f"constant{i}", offset=offset, bytes=constant.data.nbytes)
        for i, (constant, offset) in enumerate(constants.items())
    )


def _cost(call: Call, choice: dict[str, Any] | None, table: _Table | None) -> dict[str, Any]:
    """What the manifest says of a kernel call beside how to make it: operations, bytes, and what its schedule chose."""
    cost = {} if table is not None else {"flops": flops(call), "bytes": moved_bytes(call)}
    return cost if choice is None else cost | {"choice": choice}


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
