"""The questions that compiling a model for a target raises, which kinds of device answer differently.

In the order in which they are asked: whether whole models are compiled for it, through which graph passes they go, what
code distinct kernels become, what code makes their calls, and what loads and runs it.

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

    def __init__(self, target: Target | None) -> None:
        """For `target`; None asks what is usual for the kind, without any device to judge by."""
        self._target = target

    @property
    def target(self) -> Target:
        """The target. Only what is usual can be asked of a backend without one."""
        assert self._target is not None, "a backend without a target has no costs and makes no code"
        return self._target

    @property
    def has_target(self) -> bool:
        """False for a backend that answers what is usual for its kind, without costs."""
        return self._target is not None

    def check(self, measured: bool = False) -> None:
        """Raise a `UserError` where no whole model is compiled for the target, or none can be `measured` here."""

    @property
    def is_here(self) -> bool:
        """True if this process can run the code."""
        return True

    # -------------------------------------------------------------------------------------------------- graph passes
    def offload(self, mod: IRModule, run: Run) -> IRModule:
        """The module with kernels of the device for the parts of it that it takes; by default it takes all as it is.

        `run` computes functions, where the division rests on their values.
        """
        return mod

    def pipeline(self) -> tuple[GraphPass, ...]:
        """The graph passes in order; by default those that need no rules of the device's own but for fusion."""
        return PLAIN_PIPELINE

    def rules(self) -> GraphBackend:
        """The rules of layouts and packing that passes of its pipeline ask for. Refused by devices without any."""
        raise self._refused()

    def gathers_operands(self) -> bool:
        """True if products read operands element by element, so that transposing them costs nothing."""
        return False

    def fuses_depthwise(self, channels: int, filters: int, height: int, width: int) -> bool:
        """True if a depthwise convolution of such a result is computed in the 1x1 one to `filters` that reads it."""
        return False

    # ------------------------------------------------------------------------------------------------------ schedules
    def schedule(self, outs: list[te.Tensor], config: Mapping[str, Any] | None = None) -> te.Schedule:
        """The schedule of a computation with `config` of `search_space(outs)`, by default the one of least cost.

        It may also be a configuration of the computation's sketch, where it has one.
        """
        raise self._refused()

    def search_space(self, outs: list[te.Tensor]) -> ConfigSpace | None:
        """The configurations of the computation's template, ranked by cost; None where it has no choices."""
        raise self._refused()

    def task_key(self, outs: list[te.Tensor]) -> TaskKey | None:
        """The key of the computation in records of tuning; None where it has no choices, or symbolic sizes."""
        raise self._refused()

    def has_sketch(self, outs: list[te.Tensor]) -> bool:
        """True if `schedule` takes configurations of a sketch of the computation, which needs no template."""
        return False

    def sketch_config(self, outs: list[te.Tensor], values: Mapping[str, Any]) -> Config:
        """The configuration of the computation's sketch with these values, plain data as records have them.

        Raises `ScheduleError` where there is no such.
        """
        raise self._refused()

    def seconds(self, cycles: float) -> float:
        """The time that so many cycles of a schedule's cost take on the target."""
        return float(self.target.machine.seconds(cycles))

    def choice(self, outs: list[te.Tensor], config: Mapping[str, Any] | None = None) -> Choice:
        """The template and configuration by which `schedule` computes, and the time that it is expected to take."""
        raise self._refused()

    def lower_stages(self, s: te.Schedule, args: Sequence[Any], name: str) -> Iterator[tuple[str, PrimFunc]]:
        """The function of a schedule after each loop pass, by the pass's name."""
        raise self._refused()

    # ----------------------------------------------------------------------------------------------------------- code
    def compile(self, tasks: Sequence[Task]) -> CompiledKernels:
        """The code of distinct kernels; a model's tasks come in several groups, in processes of their own."""
        raise self._refused()

    def link(
        self,
        kernels: Sequence[CompiledKernels],
        plans: Sequence[ExecutionPlan],
        orders: Sequence[Sequence[int] | None],
    ) -> tuple[bytes, list[ExecutionPlan]]:
        """The code of a whole model, and its plans as that has them; by default that of the kernels, one by one.

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
        """The code with what depends on the whole manifest."""
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
        """Lowered functions in a form of `code_stages`; with `lines` beside the source lines that they are made of."""
        raise self._refused()

    def explain(self, choice: Choice, space: ConfigSpace | None) -> list[str]:
        """Lines on what a schedule chose, and on what else its search space holds."""
        return choice.explained()

    # ------------------------------------------------------------------------------------------- what it takes itself
    def lowers(self, function: Function) -> bool:
        """True for a fused function that becomes loops, False for one that the device has another form of."""
        return True

    def own_stages(self) -> tuple[str, ...]:
        """The stages through which `offload` brings a model, and those of what the device takes of it."""
        return ()

    def own_texts(self, mod: IRModule, stage: str, kernel: str | None, run: Run) -> Iterator[str]:
        """The texts of one of `own_stages`; with `kernel` of the layers whose name contains it."""
        raise self._refused()

    def _refused(self) -> UnsupportedError:
        return UnsupportedError(f"{type(self).__name__} does not answer this question of `backend.Backend` yet")
