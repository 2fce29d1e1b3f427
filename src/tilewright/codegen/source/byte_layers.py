"""C functions that compute layers of bytes, by vectors of 16 bytes of ARM's MVE (Helium).

    tilewright_layer_conv2d_away(…)           a convolution whose sums are scaled, rounded twice, halves away from zero
    tilewright_layer_conv2d_sums(…)           one whose sums stay as they are
    tilewright_layer_depthwise_away_9(…)      the same of each channel alone, 9 taps
    tilewright_layer_add_away(…)              two tensors scaled, added and scaled

Where the compiler has no such processor (`__ARM_FEATURE_MVE`), plain C computes the same. Sums of a convolution are
those of 3 pixels by 2 channels at a time: each takes a register, and only the even ones can be summed into.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_NAME = re.compile(r"tilewright_layer_(?:(conv2d)_([a-z]+)|(depthwise)_([a-z]+)_(\d+)|(add)_([a-z]+))\(")

#: The compiler's functions of Helium, where it has them.
VECTOR_HEAD = """\
#if defined(__ARM_FEATURE_MVE) && defined(__GNUC__)
#include <arm_mve.h>
#define TILEWRIGHT_MVE 1
#endif
"""

_MOVES = """\
/* Copies bytes. */
TILEWRIGHT_MAYBE void tilewright_layer_copy(int8_t* restrict to, const int8_t* restrict from, int32_t count) {
#ifdef TILEWRIGHT_MVE
  for (; count >= 16; count -= 16, to += 16, from += 16) vstrbq_s8(to, vldrbq_s8(from));
  if (count > 0) {
    const mve_pred16_t some = vctp8q((uint32_t)count);
    vstrbq_p_s8(to, vldrbq_z_s8(from, some), some);
  }
#else
  for (; count > 0; count -= 1) *to++ = *from++;
#endif
}

/* Writes a byte many times. */
TILEWRIGHT_MAYBE void tilewright_layer_fill(int8_t* to, int32_t value, int32_t count) {
#ifdef TILEWRIGHT_MVE
  const int8x16_t all = vdupq_n_s8((int8_t)value);
  for (; count >= 16; count -= 16, to += 16) vstrbq_s8(to, all);
  if (count > 0) vstrbq_p_s8(to, all, vctp8q((uint32_t)count));
#else
  for (; count > 0; count -= 1) *to++ = (int8_t)value;
#endif
}

/* Sums of 3 windows of `count` bytes with 4 channels, from their biases on. Weights are two channels' 16 bytes each. */
TILEWRIGHT_MAYBE void tilewright_layer_sums(
    int32_t* restrict sums, const int8_t* const* at, const int8_t* restrict v, const int32_t* restrict bias,
    int32_t count) {
  int32_t half;
  for (half = 0; half < 4; half += 2) {
    const int8_t *x0 = at[0], *x1 = at[1], *x2 = at[2];
    int32_t s00 = bias[half], s01 = bias[half + 1], s10 = s00, s11 = s01, s20 = s00, s21 = s01, left = count >> 4;
#ifdef TILEWRIGHT_MVE
    int8x16_t v0, v1, u;
    __asm__ volatile(
        "dls lr, %[left]\\n"
        "1: vldrb.u8 %q[v0], [%[v]], #16\\n vldrb.u8 %q[u], [%[x0]], #16\\n vmladava.s8 %[s00], %q[u], %q[v0]\\n"
        "vldrb.u8 %q[v1], [%[v]], #16\\n vmladava.s8 %[s01], %q[u], %q[v1]\\n vldrb.u8 %q[u], [%[x1]], #16\\n"
        "vmladava.s8 %[s10], %q[u], %q[v0]\\n vmladava.s8 %[s11], %q[u], %q[v1]\\n vldrb.u8 %q[u], [%[x2]], #16\\n"
        "vmladava.s8 %[s20], %q[u], %q[v0]\\n vmladava.s8 %[s21], %q[u], %q[v1]\\n le lr, 1b"
        : [s00] "+Te"(s00), [s01] "+Te"(s01), [s10] "+Te"(s10), [s11] "+Te"(s11), [s20] "+Te"(s20), [s21] "+Te"(s21),
          [x0] "+r"(x0), [x1] "+r"(x1), [x2] "+r"(x2), [v] "+r"(v), [v0] "=&w"(v0), [v1] "=&w"(v1), [u] "=&w"(u)
        : [left] "r"(left) : "lr", "memory");
#else
    for (; left; left -= 1, x0 += 16, x1 += 16, x2 += 16, v += 32) {
      int32_t i;
      for (i = 0; i < 16; i += 1) {
        s00 += x0[i] * v[i], s01 += x0[i] * v[16 + i], s10 += x1[i] * v[i];
        s11 += x1[i] * v[16 + i], s20 += x2[i] * v[i], s21 += x2[i] * v[16 + i];
      }
    }
#endif
    sums[half] = s00, sums[half + 1] = s01, sums[half + 4] = s10;
    sums[half + 5] = s11, sums[half + 8] = s20, sums[half + 9] = s21;
  }
}

/* The same of one window. */
TILEWRIGHT_MAYBE void tilewright_layer_row(
    int32_t* restrict sums, const int8_t* restrict x, const int8_t* restrict w, const int32_t* restrict bias,
    int32_t count) {
  const int8_t* other = w + 2 * count;
  int32_t s0 = bias[0], s1 = bias[1], s2 = bias[2], s3 = bias[3], left = count >> 4;
#ifdef TILEWRIGHT_MVE
  int8x16_t u, v;
  __asm__ volatile(
      "dls lr, %[left]\\n"
      "1: vldrb.u8 %q[u], [%[x]], #16\\n vldrb.u8 %q[v], [%[w]], #16\\n vmladava.s8 %[s0], %q[u], %q[v]\\n"
      "vldrb.u8 %q[v], [%[w]], #16\\n vmladava.s8 %[s1], %q[u], %q[v]\\n vldrb.u8 %q[v], [%[other]], #16\\n"
      "vmladava.s8 %[s2], %q[u], %q[v]\\n vldrb.u8 %q[v], [%[other]], #16\\n vmladava.s8 %[s3], %q[u], %q[v]\\n"
      "le lr, 1b"
      : [s0] "+Te"(s0), [s1] "+Te"(s1), [s2] "+Te"(s2), [s3] "+Te"(s3), [x] "+r"(x), [w] "+r"(w), [other] "+r"(other),
        [u] "=&w"(u), [v] "=&w"(v)
      : [left] "r"(left) : "lr", "memory");
#else
  for (; left; left -= 1, x += 16, w += 32, other += 32) {
    int32_t i;
    for (i = 0; i < 16; i += 1)
      s0 += x[i] * w[i], s1 += x[i] * w[16 + i], s2 += x[i] * other[i], s3 += x[i] * other[16 + i];
  }
#endif
  sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3;
}
"""

#: The high half of a product, and what is added to it, in vectors and in plain C.
_HIGH = {
    "away": (
        "vqrdmulhq_s32(sum, m)",
        "sum = vaddq_s32(sum, vshrq_n_s32(vandq_s32(sum, left), 31));",
        "(product + (1 << 30)) >> 31",
        " - (high < 0 && left < 0)",
    ),
    "once": ("vmulhq_s32(sum, m)", "", "product >> 32", ""),
}

_SCALE = """\
#ifdef TILEWRIGHT_MVE
TILEWRIGHT_MAYBE int32x4_t tilewright_layer_scaled_{mode}(int32x4_t sum, int32x4_t m, int32x4_t left) {{
  sum = {high};
  {sign}
  return vrshlq_s32(sum, left);
}}
#else
TILEWRIGHT_MAYBE int32_t tilewright_layer_scaled_{mode}(int32_t sum, int32_t m, int32_t left) {{
  const int64_t product = (int64_t)sum * m;
  const int64_t high = {plain};
  return (int32_t)((high{below} + ((int64_t)1 << -left >> 1)) >> -left);
}}
TILEWRIGHT_MAYBE int8_t tilewright_layer_byte_{mode}(
    int32_t sum, int32_t m, int32_t left, int32_t zero, int32_t low, int32_t high) {{
  const int32_t value = tilewright_layer_scaled_{mode}(sum, m, left) + zero;
  return (int8_t)(value < low ? low : value > high ? high : value);
}}
#endif
"""

_BYTES = """\
/* The bytes of a pixel and 4 channels, or of those that are left; `scale` are multipliers and shifts of 4. */
TILEWRIGHT_MAYBE void tilewright_layer_bytes_{mode}(
    int8_t* restrict out, const int32_t* restrict sums, const int32_t* restrict scale, int32_t channels, int32_t zero,
    int32_t low, int32_t high) {{
#ifdef TILEWRIGHT_MVE
  int32x4_t value = tilewright_layer_scaled_{mode}(vldrwq_s32(sums), vldrwq_s32(scale), vldrwq_s32(scale + 4));
  value = vaddq_n_s32(value, zero);
  value = vminq_s32(vmaxq_s32(value, vdupq_n_s32(low)), vdupq_n_s32(high));
  if (channels >= 4)
    vstrbq_s32(out, value);
  else
    vstrbq_p_s32(out, value, vctp32q((uint32_t)channels));
#else
  int32_t lane;
  for (lane = 0; lane < 4 && lane < channels; lane += 1)
    out[lane] = tilewright_layer_byte_{mode}(sums[lane], scale[lane], scale[4 + lane], zero, low, high);
#endif
}}
"""

#: In place of the bytes: the sums themselves.
_SUMS = """\
TILEWRIGHT_MAYBE void tilewright_layer_bytes_sums(
    int32_t* restrict out, const int32_t* restrict sums, int32_t channels) {
  int32_t lane;
#ifdef TILEWRIGHT_MVE
  if (channels >= 4) {
    vstrwq_s32(out, vldrwq_s32(sums));
    return;
  }
#endif
  for (lane = 0; lane < 4 && lane < channels; lane += 1) out[lane] = sums[lane];
}

"""
_OF_SUMS = {"mode": "sums", "type": "int32_t", "parameters": "", "ends": "", "factors": "", "step": "4"}
_OF_BYTES = {
    "type": "int8_t",
    "parameters": ", int32_t zero, int32_t low, int32_t high",
    "ends": ", zero, low, high",
    "factors": "scale + 4, ",
    "step": "12",
}

_CONV2D = """\
/* A tile of 3 pixels, or of 1, by all channels; `scale` are biases of 4 each, of bytes with multipliers and shifts. */
TILEWRIGHT_KERNEL void tilewright_layer_tile_{mode}(
    {type}* restrict out, const int8_t* const* at, const int8_t* restrict w, const int32_t* restrict scale, int32_t k,
    int32_t channels{parameters}) {{
  int32_t left = channels, sums[12];
  for (; left >= 4; left -= 4, out += 4, w += 4 * k, scale += {step}) {{
    tilewright_layer_sums(sums, at, w, scale, k);
    tilewright_layer_bytes_{mode}(out, sums, {factors}4{ends});
    tilewright_layer_bytes_{mode}(out + channels, sums + 4, {factors}4{ends});
    tilewright_layer_bytes_{mode}(out + 2 * channels, sums + 8, {factors}4{ends});
  }}
  if (left) {{
    tilewright_layer_sums(sums, at, w, scale, k);
    tilewright_layer_bytes_{mode}(out, sums, {factors}left{ends});
    tilewright_layer_bytes_{mode}(out + channels, sums + 4, {factors}left{ends});
    tilewright_layer_bytes_{mode}(out + 2 * channels, sums + 8, {factors}left{ends});
  }}
}}
TILEWRIGHT_KERNEL void tilewright_layer_pixel_{mode}(
    {type}* restrict out, const int8_t* x, const int8_t* restrict w, const int32_t* restrict scale, int32_t k,
    int32_t channels{parameters}) {{
  int32_t left, sums[4];
  for (left = channels; left > 0; left -= 4, out += 4, w += 4 * k, scale += {step}) {{
    tilewright_layer_row(sums, x, w, scale, k);
    tilewright_layer_bytes_{mode}(out, sums, {factors}left{ends});
  }}
}}

/* A convolution of h by wd pixels of c bytes to oh by ow of o; `windows` has 3 rows of weights' bytes. */
TILEWRIGHT_KERNEL void tilewright_layer_conv2d_{mode}(
    {type}* restrict out, const int8_t* restrict x, const int8_t* restrict w, const int32_t* restrict scale,
    int8_t* restrict windows, int32_t h, int32_t wd, int32_t c, int32_t oh, int32_t ow, int32_t o, int32_t kh,
    int32_t kw, int32_t sh, int32_t sw, int32_t top, int32_t start, int32_t pad{parameters}) {{
  const int32_t row = kw * c, k = (kh * row + 15) & -16, n = oh * ow, pixels = n < 3 ? 1 : 3;
  const bool single = kh == 1 && kw == 1 && top == 0 && start == 0;
  int32_t i, p, ry;
  for (i = 0; i < n; i += pixels) {{
    const int32_t first = i + pixels <= n ? i : n - pixels;
    const int8_t* at[3];
    for (p = 0; p < pixels; p += 1) {{
      const int32_t position = first + p, y = position / ow * sh - top, xs = position % ow * sw - start;
      int8_t* to = windows + p * k;
      at[p] = x + (y * wd + xs) * c;
      /* behind a pixel of fewer bytes than weights have, others follow, whose weights are 0 */
      if (!single || (y * wd + xs) * c + k > h * wd * c) {{
        at[p] = to;
        const int32_t before = xs < 0 ? -xs * c : 0, behind = xs + kw > wd ? (xs + kw - wd) * c : 0;
        for (ry = y; ry < y + kh; ry += 1, to += row) {{
          if (ry < 0 || ry >= h) {{
            tilewright_layer_fill(to, pad, row);
          }} else {{
            if (before) tilewright_layer_fill(to, pad, before);
            tilewright_layer_copy(to + before, x + (ry * wd + xs) * c + before, row - before - behind);
            if (behind) tilewright_layer_fill(to + row - behind, pad, behind);
          }}
        }}
      }}
    }}
    if (pixels == 3)
      tilewright_layer_tile_{mode}(out + first * o, at, w, scale, k, o{ends});
    else
      tilewright_layer_pixel_{mode}(out + first * o, at[0], w, scale, k, o{ends});
  }}
}}
"""

_DEPTHWISE = """\
#ifdef TILEWRIGHT_MVE
#undef TILEWRIGHT_TAPS
#define TILEWRIGHT_TAPS \\
  [a0] "+w"(a0), [a1] "+w"(a1), [a2] "+w"(a2), [a3] "+w"(a3), [even] "=&w"(even), [odd] "=&w"(odd), [u] "=&w"(u), \\
  [v] "=&w"(v), [from] "=&r"(from), [w] "+r"(w) : [at] "r"(at), [j] "r"(j), [some] "r"((uint32_t)some) : "memory"
#endif
/* The bytes of a pixel and 16 channels, or those that are left, of windows of {taps} taps. */
TILEWRIGHT_MAYBE void tilewright_layer_taps_{mode}_{taps}(
    int8_t* restrict out, const int8_t* const* at, int32_t j, const int8_t* restrict w, const int32_t* restrict scale,
    int32_t channels, int32_t zero, int32_t low, int32_t high) {{
#ifdef TILEWRIGHT_MVE
  const mve_pred16_t some = vctp8q((uint32_t)channels);
  int32x4_t a0 = vldrwq_s32(scale), a1 = vldrwq_s32(scale + 4), a2 = vldrwq_s32(scale + 8), a3 = vldrwq_s32(scale + 12);
  int16x8_t even, odd;
  int8x16_t u, v;
  const int8_t* from;
  if (channels >= 16)
    __asm__ volatile(
{full}
        : TILEWRIGHT_TAPS);
  else
    __asm__ volatile(
{rest}
        : TILEWRIGHT_TAPS);
  a0 = tilewright_layer_scaled_{mode}(a0, vldrwq_s32(scale + 16), vldrwq_s32(scale + 32));
  a2 = tilewright_layer_scaled_{mode}(a2, vldrwq_s32(scale + 24), vldrwq_s32(scale + 40));
  even = vqmovntq_s32(vqmovnbq_s32(vreinterpretq_s16_s32(a0), a0), a2);
  a1 = tilewright_layer_scaled_{mode}(a1, vldrwq_s32(scale + 20), vldrwq_s32(scale + 36));
  a3 = tilewright_layer_scaled_{mode}(a3, vldrwq_s32(scale + 28), vldrwq_s32(scale + 44));
  odd = vqmovntq_s32(vqmovnbq_s32(vreinterpretq_s16_s32(a1), a1), a3);
  even = vqaddq_n_s16(even, (int16_t)zero);
  odd = vqaddq_n_s16(odd, (int16_t)zero);
  u = vqmovntq_s16(vqmovnbq_s16(vreinterpretq_s8_s16(even), even), odd);
  if (low > -128) u = vmaxq_s8(u, vdupq_n_s8((int8_t)low));
  if (high < 127) u = vminq_s8(u, vdupq_n_s8((int8_t)high));
  vstrbq_p_s8(out, u, some);
#else
  int32_t lane, t;
  for (lane = 0; lane < 16 && lane < channels; lane += 1) {{
    const int32_t held = lane % 4 * 4 + lane / 4;
    int32_t sum = scale[held];
    for (t = 0; t < {taps}; t += 1) sum += at[t][j + lane] * w[16 * t + lane];
    out[lane] = tilewright_layer_byte_{mode}(sum, scale[16 + held], scale[32 + held], zero, low, high);
  }}
#endif
}}

/* A depthwise convolution of h by wd pixels of c bytes to oh by ow; `around` has a pixel's bytes. */
TILEWRIGHT_KERNEL void tilewright_layer_depthwise_{mode}_{taps}(
    int8_t* restrict out, const int8_t* restrict x, const int8_t* restrict w, const int32_t* restrict scale,
    int8_t* restrict around, int32_t h, int32_t wd, int32_t c, int32_t oh, int32_t ow, int32_t kh, int32_t kw,
    int32_t sh, int32_t sw, int32_t top, int32_t start, int32_t pad, int32_t zero, int32_t low, int32_t high) {{
  const int8_t *at[{taps}], *inner[{taps}];
  int32_t y, xs, j, t, ry, rx;
  tilewright_layer_fill(around, pad, (c + 15) & -16);
  for (y = -top; y < oh * sh - top; y += sh) {{
    const bool inside = y >= 0 && y + kh <= h;
    if (inside)
      for (t = 0, ry = y; ry < y + kh; ry += 1)
        for (rx = 0; rx < kw; rx += 1) inner[t++] = x + (ry * wd + rx) * c;
    for (xs = -start; xs < ow * sw - start; xs += sw, out += c) {{
      const bool within = inside && xs >= 0 && xs + kw <= wd;
      /* two pixels of 8 channels, of which the weights are there twice, are neighbours in memory */
      const bool two = within && c == 8 && sw == 1 && xs + kw < wd && xs + sw < ow * sw - start;
      const int32_t offset = within ? xs * c : 0, count = two ? 2 * c : c;
      if (!within)
        for (t = 0, ry = y; ry < y + kh; ry += 1)
          for (rx = xs; rx < xs + kw; rx += 1)
            at[t++] = ry >= 0 && ry < h && rx >= 0 && rx < wd ? x + (ry * wd + rx) * c : around;
      for (j = 0; j < count; j += 16)
        tilewright_layer_taps_{mode}_{taps}(
            out + j, within ? inner : at, offset + j, w + {taps} * j, scale + 3 * j, count - j, zero, low, high);
      if (two) xs += sw, out += c;
    }}
  }}
}}
"""

_ADD = """\
/* Two tensors of bytes, each less its zero, shifted and scaled; their sum scaled. */
TILEWRIGHT_KERNEL void tilewright_layer_add_{mode}(
    int8_t* restrict out, const int8_t* restrict a, const int8_t* restrict b, int32_t count, int32_t a_zero,
    int32_t a_left, int32_t a_m, int32_t a_shift, int32_t b_zero, int32_t b_left, int32_t b_m, int32_t b_shift,
    int32_t m, int32_t shift, int32_t zero, int32_t low, int32_t high) {{
  int32_t i;
#ifdef TILEWRIGHT_MVE
  for (i = 0; i < count; i += 4) {{
    const mve_pred16_t some = vctp32q((uint32_t)(count - i));
    int32x4_t u = vshlq_r_s32(vsubq_n_s32(vldrbq_z_s32(a + i, some), a_zero), a_left);
    int32x4_t v = vshlq_r_s32(vsubq_n_s32(vldrbq_z_s32(b + i, some), b_zero), b_left);
    u = tilewright_layer_scaled_away(u, vdupq_n_s32(a_m), vdupq_n_s32(a_shift));
    v = tilewright_layer_scaled_away(v, vdupq_n_s32(b_m), vdupq_n_s32(b_shift));
    u = tilewright_layer_scaled_{mode}(vaddq_s32(u, v), vdupq_n_s32(m), vdupq_n_s32(shift));
    u = vminq_s32(vmaxq_s32(vaddq_n_s32(u, zero), vdupq_n_s32(low)), vdupq_n_s32(high));
    vstrbq_p_s32(out + i, u, some);
  }}
#else
  for (i = 0; i < count; i += 1) {{
    const int32_t u = (a[i] - a_zero) * (1 << a_left), v = (b[i] - b_zero) * (1 << b_left);
    const int32_t one = tilewright_layer_scaled_away(u, a_m, a_shift);
    const int32_t other = tilewright_layer_scaled_away(v, b_m, b_shift);
    out[i] = tilewright_layer_byte_{mode}(one + other, m, shift, zero, low, high);
  }}
#endif
}}
"""


def layer_functions(text: str) -> str:
    """The functions of layers that `text` calls, each defined once in a file however many texts stand in it."""
    parts: dict[str, str] = {}
    for found in dict.fromkeys(match.groups() for match in _NAME.finditer(text)):
        conv, mode, depthwise, other, taps, add, last = found
        if mode == "sums":
            parts["conv2d_sums"] = _SUMS + _CONV2D.format(**_OF_SUMS)
            continue
        for one in filter(None, (mode, other, last, add and "away")):
            high, sign, plain, below = _HIGH[one]
            parts[f"scaled_{one}"] = _SCALE.format(mode=one, high=high, sign=sign, plain=plain, below=below)
        if conv:
            parts[f"conv2d_{mode}"] = (_BYTES + "\n" + _CONV2D).format(mode=mode, **_OF_BYTES)
        elif depthwise:
            parts[f"depthwise_{other}_{taps}"] = _depthwise(other, int(taps))
        else:
            parts[f"add_{last}"] = _ADD.format(mode=last)
    if not parts:
        return ""
    guarded = [_guarded(name, part) for name, part in sorted({"moves": _MOVES, **parts}.items(), key=_order)]
    return "\n".join([VECTOR_HEAD, *guarded])


def _order(item: tuple[str, str]) -> tuple[bool, bool]:
    """The key that sorts what others call to the front."""
    return not item[0].startswith("scaled"), item[0] != "moves"


def _guarded(name: str, text: str) -> str:
    guard = f"tilewright_layer_{name}_H"
    return f"#ifndef {guard}\n#define {guard}\n{text}#endif\n"


def _depthwise(mode: str, taps: int) -> str:
    full = "\n".join(_taps(taps, "vldrb.u8 %q[u], [%[from]]"))
    rest = "\n".join(_taps(taps, "vpst\\n vldrbt.u8 %q[u], [%[from]]"))
    rest = '        "vmsr p0, %[some]\\n"\n' + rest
    return _DEPTHWISE.format(mode=mode, taps=taps, full=full, rest=rest)


def _taps(taps: int, load: str) -> Iterator[str]:
    """Sums of products of two taps in 16 bits, which they fit, and of all in 32; a second byte is read twice.

    There are eight registers, and nine values without that.
    """
    for t in range(taps):
        yield f'        "ldr %[from], [%[at], #{4 * t}]\\n add %[from], %[from], %[j]\\n {load}\\n"'
        yield '        "vldrb.u8 %q[v], [%[w]], #16\\n"'
        if t % 2:
            yield f'        "vmullb.s8 %q[u], %q[u], %q[v]\\n vadd.i16 %q[even], %q[even], %q[u]\\n {load}\\n"'
            yield '        "vmullt.s8 %q[u], %q[u], %q[v]\\n vadd.i16 %q[odd], %q[odd], %q[u]\\n"'
        else:
            yield '        "vmullb.s8 %q[even], %q[u], %q[v]\\n vmullt.s8 %q[odd], %q[u], %q[v]\\n"'
        if t % 2 or t == taps - 1:
            for a, source, half in (("a0", "even", "b"), ("a2", "even", "t"), ("a1", "odd", "b"), ("a3", "odd", "t")):
                yield f'        "vmovl{half}.s16 %q[u], %q[{source}]\\n vadd.i32 %q[{a}], %q[{a}], %q[u]\\n"'
