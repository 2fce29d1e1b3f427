"""All schedule templates of CPUs, by the tag of the computation that they are for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tilewright import te
from tilewright.backend.cpu.schedule.attention import ATTENTION
from tilewright.backend.cpu.schedule.attention_backward import ATTENTION_BACKWARD
from tilewright.backend.cpu.schedule.bitserial import BITSERIAL
from tilewright.backend.cpu.schedule.conv2d import CONV2D, CONV2D_TRANSPOSE
from tilewright.backend.cpu.schedule.conv2d_backward_weight import CONV2D_BACKWARD_WEIGHT
from tilewright.backend.cpu.schedule.conv2d_nchw import CONV2D_1X1_NCHW, CONV2D_NCHW, schedule_conv2d_transpose_nchw
from tilewright.backend.cpu.schedule.dense_blockwise import DENSE_BLOCKWISE
from tilewright.backend.cpu.schedule.depthwise_conv2d import DEPTHWISE_CONV2D
from tilewright.backend.cpu.schedule.depthwise_conv2d_nchw import DEPTHWISE_CONV2D_NCHW
from tilewright.backend.cpu.schedule.fused_depthwise import DEPTHWISE_PAIR
from tilewright.backend.cpu.schedule.grouped_conv2d import GROUPED_CONV2D
from tilewright.backend.cpu.schedule.narrow_attention import NARROW_ATTENTION
from tilewright.backend.cpu.schedule.pool import schedule_pool
from tilewright.backend.cpu.schedule.product_spaces import BATCH_MATMUL, CONV2D_DOT, DENSE, DENSE_DOT
from tilewright.backend.cpu.schedule.recurrent import RECURRENT
from tilewright.backend.cpu.schedule.winograd import CONV2D_WINOGRAD
from tilewright.target import Target
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.cost import Cost
from tilewright.topi.schedule.space import ConfigSpace
from tilewright.topi.schedule.template import Template


def _without_choices(tag: str, schedule: Callable[[te.Schedule, te.Tensor, te.Tensor, Target], None]) -> Template:
    """A template whose schedule follows from the computation alone."""

    def scheduled(s: te.Schedule, anchor: te.Tensor, out: te.Tensor, target: Target, config: Config) -> None:
        schedule(s, anchor, out, target)

    return Template(tag, lambda anchor, out: None, lambda _, target: ConfigSpace(), lambda *_: Cost(), scheduled)


_TEMPLATES = (
    CONV2D,
    CONV2D_BACKWARD_WEIGHT,
    GROUPED_CONV2D,
    DEPTHWISE_CONV2D,
    CONV2D_WINOGRAD,
    CONV2D_TRANSPOSE,
    CONV2D_NCHW,
    CONV2D_1X1_NCHW,
    DEPTHWISE_CONV2D_NCHW,
    _without_choices("conv2d_transpose_nchw", schedule_conv2d_transpose_nchw),
    DEPTHWISE_PAIR,
    DENSE,
    BATCH_MATMUL,
    DENSE_DOT,
    DENSE_BLOCKWISE,
    BITSERIAL,
    CONV2D_DOT,
    ATTENTION,
    ATTENTION_BACKWARD,
    NARROW_ATTENTION,
    _without_choices("pool", schedule_pool),
    RECURRENT,
)

#: Tag of the anchor's compute -> its template; two tags where a kernel has two anchors.
REGISTRY: Mapping[str, Template] = MappingProxyType({template.tag: template for template in _TEMPLATES})


__all__ = ["REGISTRY"]
