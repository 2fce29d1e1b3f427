"""The interface of a kind of device to the compiler: passes, layouts, schedules, code, linking, loading.

Its methods stand in the order in which a model is compiled: graph passes, schedules, code of the distinct kernels, code
of the calls, loading.

    mod = backend.offload(mod, run)
    for graph_pass in backend.pipeline(): …
    code = backend.link(backend.compile(tasks), plans)
    model = backend.load(manifest, code, weights, threads)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from tilewright import te
from tilewright.backend.compiled import AnyCompiled
from tilewright.backend.kernels import CompiledKernels, Task
from tilewright.errors import UnsupportedError
from tilewright.load import open_model
from tilewright.records.entry import TaskKey
from tilewright.relay.ir.backend import GraphBackend
from tilewright.relay.ir.expr import Function
from tilewright.relay.ir.module import IRModule
from tilewright.relay.transform.manager.graph_pass import GraphPass
from tilewright.relay.transform.passes import PLAIN_PIPELINE
from tilewright.runtime.link import bundle_objects
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.model import Model
from tilewright.runtime.plan import ExecutionPlan
from tilewright.target import Target
from tilewright.tir.stmt import PrimFunc
from tilewright.topi.schedule.choice import Choice
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.space import ConfigSpace

#: Computes a function of a graph on a target, on arrays by the parameters' names.
Run = Callable[[Function, Target, Mapping[str, Any]], Sequence[Any]]


class Backend:
    """One kind of device, for one target of it.

    A new kind subclasses it, is entered in `backend.kinds`, and has a class `Program` in `runtime/<device>/program.py`.
    What it does not answer raises `UnsupportedError`.
    """

    #: The kind of device, as manifests name it: `runtime/<device>` runs its models.
    device: ClassVar[str] = "cpu"

    #: Bytes to which buffers in the device's memory are aligned.
    alignment: ClassVar[int] = 64

    #: Bytes to which kernels want parts of such buffers aligned: where a part cannot be, it is copied.
    part_alignment: ClassVar[int] = 1

    #: True for a device beside the host, with a memory of its own: operators of a program may be computed on either.
    has_own_memory: ClassVar[bool] = False

    #: True where programs find their symbolic sizes by compiled code, as nothing else is there to do it.
    plans_in_code: ClassVar[bool] = False
    #: True where the host beside such a device runs code for this machine's processor.
    has_processor_beside = True

    def __init__(self, target: Target | None) -> None:
        """For `target`; with None for the defaults of the kind, without costs."""
        self._target = target
        #: The loops of kernels by name, as `compile` in this process made them, for who sets a dictionary.
        self.lowered: dict[str, PrimFunc] | None = None

    @property
    def target(self) -> Target:
        """The target; a backend without one has only the defaults of its kind."""
        assert self._target is not None, "a backend without a target has no costs and makes no code"
        return self._target

    @property
    def has_target(self) -> bool:
        """False for a backend that has only the defaults of its kind, without costs."""
        return self._target is not None

    def check(self, measured: bool = False) -> None:
        """Raise a `UserError` if no whole model can be compiled for the target, or none be `measured` here."""

    @property
    def is_here(self) -> bool:
        """True if this process can run the code."""
        return True

    def obstacle(self) -> str:
        """The reason why this process cannot run the code, where more is known than that it is another machine's."""
        return ""

    # -------------------------------------------------------------------------------------------------- graph passes
    def offload(self, mod: IRModule, run: Run) -> IRModule:
        """The module with calls of the device's own kernels for the parts that it takes; by default unchanged.

        `run` computes functions, where the division rests on their values.
        """
        return mod

    def pipeline(self) -> tuple[GraphPass, ...]:
        """The graph passes in order; by default those that need no layout rules of the device."""
        return PLAIN_PIPELINE

    def rules(self) -> GraphBackend:
        """The rules of layouts and packing for the passes of its pipeline. Devices may have none."""
        raise self._refused()

    def asked(self) -> GraphBackend:
        """The backend that graph passes ask; by default itself."""
        return self  # type: ignore[return-value]

    def gathers_operands(self) -> bool:
        """True if products read operands element by element, so that transposing them costs nothing."""
        return False

    def finishes_rows(self) -> bool:
        """True if softmax and normalizations of rows take what follows them elementwise into their kernel."""
        return False

    def multiplies_pairs(self) -> bool:
        """True if there are instructions that multiply bfloat16 and add to float32."""
        return False

    def lookup_cost(self) -> int | None:
        """Vector instructions that look up a vector of bytes in a table of 256; None where tables are not wanted."""
        return None

    def fuses_depthwise(self, channels: int, filters: int, height: int, width: int) -> bool:
        """True if a depthwise convolution with such a result is fused into the 1x1 one to `filters` that reads it."""
        return False

    # ------------------------------------------------------------------------------------------------------ schedules
    def schedule(self, outs: list[te.Tensor], config: Mapping[str, Any] | None = None) -> te.Schedule:
        """The schedule of a computation with `config` of `search_space(outs)`, by default the cheapest one.

        It may also be a configuration of the computation's sketch, where it has one.
        """
        raise self._refused()

    def search_space(self, outs: list[te.Tensor]) -> ConfigSpace | None:
        """The configurations of the computation's template by rising cost; None if there is nothing to choose."""
        raise self._refused()

    def task_key(self, outs: list[te.Tensor]) -> TaskKey | None:
        """The key of the computation in tuning records; None if there is nothing to choose, or a size is symbolic."""
        raise self._refused()

    def has_sketch(self, outs: list[te.Tensor]) -> bool:
        """True if the computation has a sketch, whose configurations `schedule` takes too."""
        return False

    def sketch_config(self, outs: list[te.Tensor], values: Mapping[str, Any]) -> Config:
        """The configuration of the computation's sketch with these values, in the JSON form of records.

        Raises `ScheduleError` where there is no such.
        """
        raise self._refused()

    def seconds(self, cycles: float) -> float:
        """The time of so many cycles on the target, in seconds."""
        return float(self.target.machine.seconds(cycles))

    def operator_seconds(self, operations: float, nbytes: float, alone: bool) -> float:
        """The time of an operator that does so many operations and moves so many bytes, by the machine's figures.

        `alone` is True for one that becomes a kernel, False for one that is fused into another's.
        """
        raise self._refused()

    def copy_seconds(self, nbytes: float) -> float:
        """The time of a copy of so many bytes between the host's memory and the device's own."""
        raise self._refused()

    def choice(self, outs: list[te.Tensor], config: Mapping[str, Any] | None = None) -> Choice:
        """The template and configuration that `schedule` takes, with the predicted time."""
        raise self._refused()

    def lower_stages(self, s: te.Schedule, args: Sequence[Any], name: str) -> Iterator[tuple[str, PrimFunc]]:
        """The function after each loop pass, with the name of the pass."""
        raise self._refused()

    # ----------------------------------------------------------------------------------------------------------- code
    def compile(self, tasks: Sequence[Task]) -> CompiledKernels:
        """The code of distinct kernels; a model's tasks are divided into groups, compiled in processes of their own."""
        raise self._refused()

    def link(
        self,
        kernels: Sequence[CompiledKernels],
        plans: Sequence[ExecutionPlan],
        orders: Sequence[Sequence[int] | None],
    ) -> tuple[bytes, list[ExecutionPlan]]:
        """The code of a whole model and its final plans; by default the kernels' code and the plans unchanged.

        `orders` has an entry for each plan: where callers do without a runtime that computes symbolic sizes, the order
        in which the arena's buffers are placed, else None.
        """
        return bundle_objects([compiled.code for compiled in kernels]), list(plans)

    def ahead_of_time(self) -> str:
        """The name of the executor "aot" in manifests, whose models are one function of their code."""
        raise UnsupportedError(
            f'the executor "aot" runs models as one C function, which {self.target} has none of; use "graph" or "auto"'
        )

    def facts(self) -> dict[str, Any]:
        """The fields of the manifest that say which machine the code is for."""
        return {"device": self.device, "target": str(self.target)}

    def finish(self, code: bytes, manifest: Manifest, weights_bytes: int) -> bytes:
        """The code, completed by what depends on the manifest."""
        return code

    def load(self, manifest: Manifest, code: bytes, weights: Any, threads: int | None = None) -> Model:
        """The model of `code`, ready to run."""
        return open_model(manifest, code, weights, threads)

    # ------------------------------------------------------------------------------------- functions of the loop IR
    def build(self, funcs: Sequence[PrimFunc], threads: int | None = None) -> Any:
        """A module of the runtime of lowered functions. Raises `TargetError` if this machine cannot run it."""
        raise self._refused()

    def compiled(self, funcs: Sequence[PrimFunc], here: bool = True) -> AnyCompiled:
        """Lowered functions as object code, which another process may run.

        Raises `TargetError` if this machine cannot, unless it is for another (`here` False).
        """
        raise self._refused()

    def code_stages(self) -> tuple[str, ...]:
        """The forms in which `code_text` shows the code of functions, in the order in which they are made."""
        return ()

    def code_text(self, funcs: Sequence[PrimFunc], stage: str, lines: bool = False) -> str:
        """Lowered functions in a form of `code_stages`; with `lines`, their source lines between the instructions."""
        raise self._refused()

    def explain(self, choice: Choice, space: ConfigSpace | None) -> list[str]:
        """Lines that describe what a schedule chose and the alternatives of its search space."""
        return choice.explained()

    # ------------------------------------------------------------------------------------------- what it takes itself
    def lowers(self, function: Function) -> bool:
        """True if a fused function is lowered to loops, False if the device has another form of code for it."""
        return True

    def own_stages(self) -> tuple[str, ...]:
        """The stages of `offload`, and those of the device's own kernels, for `inspect --stage`."""
        return ()

    def own_texts(self, mod: IRModule, stage: str, kernel: str | None, run: Run) -> Iterator[str]:
        """The texts of one of `own_stages`; with `kernel` of the layers whose name contains it."""
        raise self._refused()

    def _refused(self) -> UnsupportedError:
        return UnsupportedError(f"{type(self).__name__} has no method for this yet; `backend.Backend` describes it")
