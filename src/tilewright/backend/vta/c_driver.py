"""The steps of programs in C: operands as tiles into a block, the registers that begin a run, results out of the block.

The registers are those of the hardware (docs/vta_hardware.md) at the symbol `tilewright_vta_registers`, which a linker
script defines. Micro-ops, weights and biases are read from the program's image, among the model's constants; inputs and
outputs lie in the block, part of the workspace. Nothing is kept between calls: the register of inputs has the address
of the block that was launched last, so that a wait knows if a later launch has waited for its run already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.vta.config import Config
from tilewright.vta.network.block import config_of, spans
from tilewright.vta.registers import REGISTERS

_DRIVER = """\
extern volatile uint32_t tilewright_vta_registers[9];

#ifndef TILEWRIGHT_VTA_FENCE /* makes what was written visible to the accelerator, and what it wrote to the processor */
#if defined(__GNUC__)
#define TILEWRIGHT_VTA_FENCE() __sync_synchronize()
#else
#define TILEWRIGHT_VTA_FENCE() ((void)0)
#endif
#endif

TILEWRIGHT_MAYBE void tilewright_vta_idle(void) {{
  while (tilewright_vta_registers[{control}] & 1u) {{}}
  TILEWRIGHT_VTA_FENCE();
}}

/* Begins a program of `count` instructions, `first` bytes behind the start of its image, whose DRAM has the block in
   front of the image. */
TILEWRIGHT_MAYBE void tilewright_vta_launch(void *block, void *image, int32_t base, int32_t first, uint32_t count) {{
  const uint32_t data = (uint32_t)(uintptr_t)block, constants = (uint32_t)(uintptr_t)image - (uint32_t)base;
  tilewright_vta_idle();
  tilewright_vta_registers[{count}] = count;
  tilewright_vta_registers[{instructions}] = (uint32_t)(uintptr_t)image + (uint32_t)first;
  tilewright_vta_registers[{UOP}] = constants;
  tilewright_vta_registers[{INP}] = data;
  tilewright_vta_registers[{WGT}] = constants;
  tilewright_vta_registers[{ACC}] = constants;
  tilewright_vta_registers[{OUT}] = data;
  TILEWRIGHT_VTA_FENCE();
  tilewright_vta_registers[{control}] = 1u;
}}

/* Waits for the run on a block. A later launch has waited for it. */
TILEWRIGHT_MAYBE void tilewright_vta_wait(const void *block) {{
  if (tilewright_vta_registers[{INP}] == (uint32_t)(uintptr_t)block) tilewright_vta_idle();
}}

/* The first byte of channel c of image n in tiles of {batch} x {block}; pixels are {tile} bytes apart. */
TILEWRIGHT_MAYBE int32_t tilewright_vta_lane(int32_t n, int32_t c, int32_t channels, int32_t pixels) {{
  const int32_t blocks = (channels + {block} - 1) / {block};
  return ((n / {batch} * blocks + c / {block}) * pixels * {batch} + n % {batch}) * {block} + c % {block};
}}

/* Copies bytes that lie as many bytes apart as the steps say. */
#define TILEWRIGHT_VTA_COPY(to, to_step, from, from_step, bytes) do {{ \
    int32_t left_ = (bytes); \
    for (; left_ >= 4; left_ -= 4, (to) += 4 * (to_step), (from) += 4 * (from_step)) {{ \
      const int8_t a_ = (from)[0], b_ = (from)[from_step], c_ = (from)[2 * (from_step)], d_ = (from)[3 * (from_step)]; \
      (to)[0] = a_, (to)[to_step] = b_, (to)[2 * (to_step)] = c_, (to)[3 * (to_step)] = d_; \
    }} \
    for (; left_ > 0; left_--, (to) += (to_step), (from) += (from_step)) *(to) = *(from); \
  }} while (0)

/* Zeros in one channel of so many pixels. */
TILEWRIGHT_MAYBE int8_t *tilewright_vta_clear(int8_t *to, int32_t pixels) {{
  for (; pixels >= 4; pixels -= 4, to += 4 * {tile}) to[0] = to[{tile}] = to[2 * {tile}] = to[3 * {tile}] = 0;
  for (; pixels > 0; pixels--, to += {tile}) *to = 0;
  return to;
}}

/* Writes zeros where tiles have neither an image nor a channel. */
TILEWRIGHT_MAYBE void tilewright_vta_fill(int8_t *tiles, int32_t images, int32_t channels, int32_t pixels) {{
  const int32_t rows = (images + {batch} - 1) / {batch} * {batch}, lanes = (channels + {block} - 1) / {block} * {block};
  int32_t n, c;
  for (n = 0; n < rows; n++)
    for (c = n < images ? channels : 0; c < lanes; c++)
      tilewright_vta_clear(tiles + tilewright_vta_lane(n, c, channels, pixels), pixels);
}}

TILEWRIGHT_MAYBE void tilewright_vta_pack(const int8_t *image, int8_t *tiles, int32_t images, int32_t channels,
                                          int32_t pixels) {{
  int32_t n, c;
  for (n = 0; n < images; n++)
    for (c = 0; c < channels; c++) {{
      int8_t *to = tiles + tilewright_vta_lane(n, c, channels, pixels);
      TILEWRIGHT_VTA_COPY(to, {tile}, image, 1, pixels);
    }}
  tilewright_vta_fill(tiles, images, channels, pixels);
}}

TILEWRIGHT_MAYBE void tilewright_vta_unpack(const int8_t *tiles, int8_t *image, int32_t images, int32_t channels,
                                            int32_t pixels) {{
  int32_t n, c;
  for (n = 0; n < images; n++)
    for (c = 0; c < channels; c++) {{
      const int8_t *from = tiles + tilewright_vta_lane(n, c, channels, pixels);
      TILEWRIGHT_VTA_COPY(image, 1, from, {tile}, pixels);
    }}
}}

/* Numbers of their bytes, which lie `plane` bytes apart, the lowest first. */
TILEWRIGHT_MAYBE void tilewright_vta_join(const int8_t *tiles, int32_t *image, int32_t images, int32_t channels,
                                          int32_t pixels, int32_t planes, int32_t plane) {{
  int32_t n, c, p, k;
  for (n = 0; n < images; n++)
    for (c = 0; c < channels; c++) {{
      const int8_t *from = tiles + tilewright_vta_lane(n, c, channels, pixels);
      for (p = 0; p < pixels; p++, from += {tile}) {{
        int32_t sum = from[(planes - 1) * plane];
        for (k = planes - 2; k >= 0; k--) sum = sum * 256 + (uint8_t)from[k * plane];
        *image++ = sum;
      }}
    }}
}}
"""

#: The pixels that each output of a convolution reads, as channels: a row of results is zeros, pixels, and zeros.
_PATCHES = """\
{{ const int8_t *image = (const int8_t *)p{operand};
  int8_t *tiles = (int8_t *)block + {first};
  int32_t n, c, i, j, y;
  for (n = 0; n < {n}; n++)
    for (c = 0; c < {c}; c++)
      for (i = 0; i < {kh}; i++)
        for (j = 0; j < {kw}; j++) {{
          const int32_t before = {left} - j * {dx}, reach = {w} + before, channel = (c * {kh} + i) * {kw} + j;
          const int32_t begin = before > 0 ? (before + {sx} - 1) / {sx} : 0;
          const int32_t most = reach > 0 ? (reach + {sx} - 1) / {sx} : 0, end = most < {columns} ? most : {columns};
          int8_t *to = tiles + tilewright_vta_lane(n, channel, {channels}, {rows} * {columns});
          for (y = 0; y < {rows}; y++) {{
            const int32_t row = y * {sy} + i * {dy} - {top};
            const int8_t *from = image + ((n * {c} + c) * {h} + row) * {w} + (begin * {sx} - before);
            if (row < 0 || row >= {h} || begin >= end) {{
              to = tilewright_vta_clear(to, {columns});
              continue;
            }}
            to = tilewright_vta_clear(to, begin);
            TILEWRIGHT_VTA_COPY(to, {tile}, from, {sx}, end - begin);
            to = tilewright_vta_clear(to, {columns} - end);
          }}
        }}
  tilewright_vta_fill(tiles, {n}, {channels}, {rows} * {columns}); }}"""


def driver_text(config: Config) -> str:
    """The functions that the steps call, for an accelerator of a configuration."""
    tile, numbers = config.batch * config.block, {name: offset // 4 for name, offset in REGISTERS.items()}
    return _DRIVER.format(**numbers, batch=config.batch, block=config.block, tile=tile)


def step_text(name: str, step: str, plan: Mapping[str, Any]) -> str:
    """The kernel `name` of a step of a program: "pack", "launch" or "wait"."""
    lines, names = {"pack": _pack, "launch": _launch, "wait": _wait}[step](plan)
    params = ", ".join(f"void *{one}" for one in names)
    body = "\n".join(f"  {line}" for line in lines)
    head = f"TILEWRIGHT_KERNEL int32_t {name}({params}, const tilewright_context *ctx) {{"
    return f"{head}\n  (void)ctx;\n{body}\n  return 0;\n}}\n\n"


def _pack(plan: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    lines, count = [], plan["operands"]
    for known, (first, _) in zip(plan["inputs"], spans(plan)[0]):
        source = (*known["source"], 1, 1)[:4]
        tiles = f"(const int8_t *)p{known['operand']}, (int8_t *)block + {first}"
        if known["patches"] is None:
            lines.append(f"tilewright_vta_pack({tiles}, {source[0]}, {source[1]}, {source[2] * source[3]});")
        else:
            lines += _patches(known, first, config_of(plan)).splitlines()
    read = {known["operand"] for known in plan["inputs"]}
    return [*lines, *(f"(void)p{i};" for i in range(count) if i not in read)], [
        *(f"p{i}" for i in range(count)),
        "block",
    ]


def _patches(known: Mapping[str, Any], first: int, config: Config) -> str:
    how, (_, channels, rows, columns) = known["patches"], known["shape"]
    sizes = dict(zip("nchw", known["source"])) | dict(zip(("kh", "kw"), how["kernel"]))
    steps = dict(zip(("sy", "sx"), how["strides"])) | dict(zip(("dy", "dx"), how["dilation"]))
    numbers = sizes | steps | {"top": how["padding"][0], "left": how["padding"][1], "channels": channels}
    more = {"operand": known["operand"], "first": first, "tile": config.batch * config.block}
    return _PATCHES.format(**numbers, **more, rows=rows, columns=columns)


def _launch(plan: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    (address, count), base = plan["program"], plan["base"]
    call = f"tilewright_vta_launch(block, image, {base}, {address - base}, {count});"
    return [call, "*(int32_t *)token = 1;"], ["block", "image", "token"]


def _wait(plan: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    lines = ["(void)token;", "tilewright_vta_wait(block);"]
    names: Sequence[str] = [f"r{number}" for number in range(len(plan["outputs"]))]
    for name, known, (first, size) in zip(names, plan["outputs"], spans(plan)[1]):
        n, c, h, w = known["shape"]
        tiles, planes = f"(const int8_t *)block + {first}", known["planes"]
        if planes == 1:
            lines.append(f"tilewright_vta_unpack({tiles}, (int8_t *){name}, {n}, {c}, {h * w});")
        else:
            more = f"{n}, {c}, {h * w}, {planes}, {size // planes}"
            lines.append(f"tilewright_vta_join({tiles}, (int32_t *){name}, {more});")
    return lines, ["token", "block", *names]
