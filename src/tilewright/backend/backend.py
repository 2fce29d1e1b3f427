"""The questions that compiling a graph for a target raises, which kinds of target answer differently.

In the order in which they are asked: which graph rewrites apply, which layouts tensors take, what becomes one kernel,
how a kernel is scheduled, through which loop passes it goes, and what code it becomes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from tilewright import te
from tilewright.autotvm.record.entry import TaskKey
from tilewright.errors import UnsupportedError
from tilewright.machine import Machine
from tilewright.target import Target
from tilewright.tir.stmt import PrimFunc
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.cpu.choice import Choice
from tilewright.topi.schedule.space import ConfigSpace
from tilewright.topi.schedule.workload import Conv2DLayouts, Conv2DWorkload


class Backend:
    """One kind of target, for one target of it.

    A new kind subclasses it and is entered in `backend.kinds`. What it answers on layouts is what its kernels read;
    what it does not answer raises `UnsupportedError` with its `refusal`.
    """

    #: Names of the graph passes of compile.py that rewrite for kernels which this kind of target does not have.
    passes_left_out: Collection[str] = ()

    def __init__(self, target: Target | None) -> None:
        """For `target`; None asks what is usual for the kind, without any processor to judge by."""
        self._target = target

    @property
    def target(self) -> Target:
        """The target. Only what is usual can be asked of a backend without one."""
        assert self._target is not None, "a backend without a target has no costs and makes no code"
        return self._target

    @property
    def machine(self) -> Machine:
        """What the processor can do."""
        return self.target.machine

    def refusal(self) -> str:
        """Why whole models cannot be compiled for the target, and what to do; "" where they can."""
        return ""

    # ------------------------------------------------------------------------------------------------- layouts
    def channel_block(self, channels: int) -> int | None:
        """The block of channels that images of `channels` are cut into; None where they stay plain."""
        raise self._refused()

    def conv2d_layouts(
        self, conv: Conv2DWorkload, arriving_block: int | None, filtered: bool
    ) -> Sequence[Conv2DLayouts]:
        """How a convolution can run, the usual way first; its image arrives in blocks of channels, or plain (None).

        Without `filtered`, minimal filtering is not exact enough for it.
        """
        raise self._refused()

    def tile_group(self, conv: Conv2DWorkload, unknown: tuple[bool, bool]) -> tuple[int, int]:
        """Rows and columns of tiles that grids of minimal filtering are made of where `unknown` sizes are symbolic."""
        raise self._refused()

    def transform_cost(self, elements: int) -> float:
        """Cycles of bringing `elements` floats from one layout to another in a kernel of its own."""
        raise self._refused()

    def padded_channels(self, channels: int, groups: Collection[int]) -> int:
        """How many channels zeros should fill `channels` up to; `groups`: channels of the groups that read them."""
        raise self._refused()

    def groups_to_join(self, conv: Conv2DWorkload) -> int:
        """How many neighbouring groups of a grouped convolution should become one; 1 for none."""
        raise self._refused()

    def dense_block(self, units: int, depth: int, rows: int) -> int:
        """Columns of a panel in which a constant weight [units, depth] is packed for products with `rows` rows.

        Where it does not divide the units, zeros fill the last panel.
        """
        raise self._refused()

    def dot_block(self, units: int, depth: int, rows: int) -> int:
        """The same for weights of bytes."""
        raise self._refused()

    def dot_operands(self) -> tuple[str, str] | None:
        """The types of data and weights that the dot product of bytes takes; None where there is none worth using."""
        raise self._refused()

    def dots_in_pairs(self) -> bool:
        """True if a dot product of bytes is cheaper where sums of two products are known to fit 16 bits."""
        raise self._refused()

    def unit_block(self, hidden: int, gates: int, dots: bool) -> int:
        """Units of a block of packed weights of a recurrent layer of `hidden` units and `gates` gates."""
        raise self._refused()

    # ------------------------------------------------------------------------------------------- kernels and code
    def fuses_depthwise(self, channels: int, filters: int, height: int, width: int) -> bool:
        """True if a depthwise convolution of such a result is computed in the 1x1 one to `filters` that reads it."""
        raise self._refused()

    def schedule(self, outs: list[te.Tensor], config: Mapping[str, Any] | None = None) -> te.Schedule:
        """The schedule of a computation with `config` of `search_space(outs)`, by default the one of least cost.

        It may also be a configuration of the computation's sketch, where it has one.
        """
        raise self._refused()

    def search_space(self, outs: list[te.Tensor]) -> ConfigSpace | None:
        """The configurations of the computation's template, ranked by cost; None where it has no choices."""
        raise self._refused()

    def task_key(self, outs: list[te.Tensor]) -> TaskKey | None:
        """What records of tuning know the computation by; None where it has no choices, or open sizes."""
        raise self._refused()

    def has_sketch(self, outs: list[te.Tensor]) -> bool:
        """True if `schedule` takes configurations of a sketch of the computation, which needs no template."""
        return False

    def sketch_config(self, outs: list[te.Tensor], values: Mapping[str, Any]) -> Config:
        """The configuration of the computation's sketch with these values, plain data as records have them.

        Raises `ScheduleError` where there is no such.
        """
        raise self._refused()

    def choice(self, outs: list[te.Tensor], config: Mapping[str, Any] | None = None) -> Choice:
        """What `schedule` does with the computation, and the time that it is expected to take."""
        raise self._refused()

    def lower_stages(self, s: te.Schedule, args: Sequence[Any], name: str) -> Iterator[tuple[str, PrimFunc]]:
        """The function of a schedule after each loop pass, by the pass's name."""
        raise self._refused()

    def object_code(self, funcs: Sequence[PrimFunc]) -> tuple[bytes, float]:
        """Code of lowered functions that can be linked, and the seconds that went by until a compiler had it."""
        raise self._refused()

    def _refused(self) -> UnsupportedError:
        return UnsupportedError(
            self.refusal() or f"{type(self).__name__} does not answer this question of `backend.Backend` yet"
        )
