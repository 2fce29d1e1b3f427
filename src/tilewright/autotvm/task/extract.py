"""The tasks of a network: its kernels that have a search space.

    tasks = extract_from_program(mod, target)          # Relay, as a frontend made it
    tasks[0].name, tasks[0].calls, len(tasks[0].points), tasks[0].default

They are exactly those of `tw.compile`: the module goes through the same passes. Kernels that templates choose by the
same facts for are one task, with the calls of all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.autotvm.task.task import INPUT, WEIGHT, KernelTask
from tilewright.backend import backend_of
from tilewright.driver.apply_records import sketch_key_of, task_key_of
from tilewright.driver.build import extract_tasks, memory_plan
from tilewright.driver.optimize import optimize
from tilewright.driver.vm.build import needs_machine, segment_modules
from tilewright.records.database import Database
from tilewright.records.entry import TaskKey
from tilewright.relay.ir.expr import Call, Constant, Function
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.symbolic import close_dims
from tilewright.relay.ir.type import tensor_types
from tilewright.relay.op.cost import flops
from tilewright.relay.transform.partition.lower_external import lower_external
from tilewright.relay.transform.simplify.expand_calls import expand_calls
from tilewright.target import Target


def extract_from_program(mod: IRModule | Function, target: str | Target = "cpu") -> list[KernelTask]:
    """The tasks of an imported Relay module or function, by falling number of operations.

    Raises what compiling it would: `UnsupportedError`, `TargetError`, `TypeMismatchError`.
    """
    target = Target(target)
    mod = IRModule.from_expr(mod) if isinstance(mod, Function) else mod
    return tasks_of(network_calls(mod, target), target)


def network_calls(mod: IRModule, target: Target, records: Database | None = None) -> list[Call]:
    """The kernel calls of a module's straight parts, compiled with `records`."""
    mod = expand_calls(lower_external(mod))
    modules = segment_modules(mod) if needs_machine(mod) else [mod]
    backend = backend_of(target)
    return [call for module in modules for call in memory_plan(optimize(module, target, records), backend).order]


def weight_bytes(calls: Sequence[Call]) -> int:
    """The bytes of all constants that kernels read."""
    constants = {arg for call in calls for arg in call.args if isinstance(arg, Constant)}
    return sum(int(constant.data.nbytes) for constant in constants)


def tasks_of(calls: Sequence[Call], target: Target) -> list[KernelTask]:
    """The tasks among the calls of kernels of optimized modules."""
    kernels, name_of = extract_tasks(calls)
    functions = {kernel.name: kernel.function for kernel in kernels}
    found: dict[TaskKey, KernelTask] = {}
    keys: dict[str, TaskKey | None] = {}
    for call in calls:
        name = name_of[call]
        if name not in keys:
            keys[name] = task_key_of(functions[name], target)
        key = keys[name]
        if key is None:
            continue
        if key in found:
            found[key].calls += 1
            continue
        function, _ = close_dims(functions[name])
        task = KernelTask(name, function, target, roles_of(call), flops=flops(call))
        if len(task.points) > 1:
            found[key] = task
    return sorted(found.values(), key=lambda task: -task.flops * task.calls)


def roles_of(call: Call) -> list[str]:
    """The role of each operand of a kernel call: `WEIGHT` for constants, else `INPUT`."""
    return [WEIGHT if isinstance(arg, Constant) else INPUT for arg in call.args for _ in tensor_types(arg.checked_type)]


def task_of_kernels(calls: Sequence[Call], target: Target) -> Mapping[str, TaskKey]:
    """The key of each kernel by its name: of its template, or of its sketch where the template has no choices."""
    kernels, _ = extract_tasks(calls)
    keys = {kernel.name: task_key_of(kernel.function, target) for kernel in kernels}
    return {kernel.name: keys[kernel.name] or sketch_key_of(kernel.function) for kernel in kernels}
