"""A convolution in tiles of numbers, `batch` × `block`, and how it is cut into pieces that fit the chip.

An image is [channel block][row][column], weights are [output block][input block][row][column]. A matrix product is a
convolution of an image of one pixel; groups that share no tile of channels are convolutions side by side (`layout.py`
joins smaller groups).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.vta.config import Config

#: Most rows or elements of padding that an instruction adds on a side.
_MOST_PAD = 15
#: Most elements from row to row.
MOST_STRIDE = (1 << 16) - 1


@dataclass(frozen=True)
class Conv2D:
    """The geometry: `images` images and `groups` side by side, blocks of input and output channels of a group.

    `padding` is (above, left, below, right).
    """

    groups: int
    inputs: int
    outputs: int
    height: int
    width: int
    kernel: tuple[int, int] = (1, 1)
    strides: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    images: int = 1

    @property
    def out_height(self) -> int:
        """Rows of the result."""
        reach = (self.kernel[0] - 1) * self.dilation[0] + 1
        return (self.height + self.padding[0] + self.padding[2] - reach) // self.strides[0] + 1

    @property
    def out_width(self) -> int:
        """Columns of the result."""
        reach = (self.kernel[1] - 1) * self.dilation[1] + 1
        return (self.width + self.padding[1] + self.padding[3] - reach) // self.strides[1] + 1

    @property
    def taps(self) -> int:
        """Tiles of weights between a block of inputs and one of outputs."""
        return self.kernel[0] * self.kernel[1]

    @property
    def sums(self) -> int:
        """Tiles of numbers of the result."""
        return self.groups * self.images * self.outputs * self.out_height * self.out_width

    @property
    def gemm_steps(self) -> int:
        """Steps of GEMM that it takes, without those that only set zeros."""
        return self.sums * self.inputs * self.taps

    @property
    def skips(self) -> tuple[int, int]:
        """The distances of the rows and columns of the image that are brought onto the chip.

        Columns are left out only without padding: then each row is a load of its own, which cannot pad rows.
        """
        down = self.strides[0] if self.kernel[0] == 1 else 1
        return down, self.strides[1] if self.kernel[1] == 1 and not any(self.padding) else 1

    @property
    def steps(self) -> tuple[int, int]:
        """Rows and columns on the chip from one output to the next."""
        return self.strides[0] // self.skips[0], self.strides[1] // self.skips[1]

    def refusal(self) -> str:
        """Why the accelerator cannot do it; "" where it can."""
        reach = [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation)]
        sides = list(zip(self.padding, (reach[0], reach[1], reach[0], reach[1])))
        if any(pad >= size for pad, size in sides):
            return f"padding {self.padding} is as wide as the kernel {self.kernel}"
        if any(pad > _MOST_PAD for pad, _ in sides):
            return f"padding {self.padding} is more than {_MOST_PAD} on a side"
        if self.width * self.skips[0] > MOST_STRIDE:
            return f"it has {self.width} columns, every {self.skips[0]}th row read, more than {MOST_STRIDE} between two"
        return ""

    def rows_of(self, rows: int) -> int:
        """Rows on the chip that `rows` rows of outputs read."""
        return (rows - 1) * self.steps[0] + (self.kernel[0] - 1) * self.dilation[0] + 1

    def columns_of(self, columns: int) -> int:
        """Columns on the chip that `columns` columns of outputs read."""
        return (columns - 1) * self.steps[1] + (self.kernel[1] - 1) * self.dilation[1] + 1


@dataclass(frozen=True)
class Tiling:
    """Rows, columns and output blocks of a tile, input blocks of a step, and virtual threads.

    `keep` says what stays on the chip until all tiles that read it are done: the "weights" of an output block, or the
    "image" of rows and columns; else each step loads both. `parts` is in how many parts a tile is rescaled and stored.
    With `early` the vector unit sets a tile's accumulators while the matrix unit works on the one before; else the
    matrix unit does, where it can, when their turn comes.
    """

    rows: int
    columns: int
    outputs: int
    inputs: int
    threads: int = 2
    keep: str = ""
    parts: int = 4
    early: bool = True

    @property
    def sums(self) -> int:
        """Accumulators of a tile."""
        return self.outputs * self.rows * self.columns

    def slabs(self, conv: Conv2D) -> int:
        """The number of times that the kept operand changes."""
        over_image = -(-conv.out_height // self.rows) * -(-conv.out_width // self.columns)
        if self.keep == "image":
            return conv.groups * conv.images * over_image
        return conv.groups * -(-conv.outputs // self.outputs)

    def needs(self, conv: Conv2D) -> tuple[int, int]:
        """Elements of INP and WGT that lie on the chip at a time, those of all threads."""
        image = conv.rows_of(self.rows) * conv.columns_of(self.columns)
        weights, kept = self.outputs * conv.taps, min(self.threads, self.slabs(conv))
        inp = image * (conv.inputs * kept if self.keep == "image" else self.inputs * self.threads)
        wgt = weights * (conv.inputs * kept if self.keep == "weights" else self.inputs * self.threads)
        return inp, wgt

    def fits(self, config: Config, conv: Conv2D, reserved: int, most_outputs: int) -> bool:
        """True if its pieces fit into the memories, with `reserved` accumulators of each thread used otherwise."""
        inp, wgt = self.needs(conv)
        return (
            self.outputs <= most_outputs
            and inp <= 1 << config.log_inp_depth
            and wgt <= 1 << config.log_wgt_depth
            and self.sums + reserved <= (1 << config.log_acc_depth) // self.threads
        )


def fits(config: Config, conv: Conv2D) -> bool:
    """True if there are tiles that fit, whatever the epilogue."""
    return Tiling(1, 1, 1, 1, threads=1).fits(config, conv, (1 << config.log_acc_depth) // 4, 1)


@dataclass(frozen=True)
class Part:
    """A tile of the result: image, group, first block, row and column, and its size; which slab of what is kept."""

    image: int
    group: int
    block: int
    row: int
    column: int
    rows: int
    columns: int
    outputs: int
    slab: int

    @property
    def pixels(self) -> int:
        """Rows times columns."""
        return self.rows * self.columns


def parts_of(conv: Conv2D, tiling: Tiling) -> Iterator[Part]:
    """The tiles of the result, those that share what is kept next to each other."""
    blocks = range(0, conv.outputs, tiling.outputs)
    positions = [
        (image, row, column)
        for image in range(conv.images)
        for row in range(0, conv.out_height, tiling.rows)
        for column in range(0, conv.out_width, tiling.columns)
    ]
    if tiling.keep == "image":
        order = [(position, block) for position in positions for block in blocks]
    else:
        order = [(position, block) for block in blocks for position in positions]
    inner = len(blocks) if tiling.keep == "image" else len(positions)
    for number, (group, ((image, row, column), block)) in enumerate(
        (group, each) for group in range(conv.groups) for each in order
    ):
        rows, columns = min(tiling.rows, conv.out_height - row), min(tiling.columns, conv.out_width - column)
        outputs = min(tiling.outputs, conv.outputs - block)
        yield Part(image, group, block, row, column, rows, columns, outputs, number // inner)
