"""The search for layers to leave in float, on trained models: the loss on data it has not seen, and the speed.

    python bench/quantized_budget.py ../shared/models/real [--models magika,ppocr_cls,…] [--inputs 1600]

Each model is quantized with a budget on half of its inputs and measured on the other half: files of this machine for
magika, rendered lines of text for ppocr_cls, synthesized chords for basic_pitch, synthesized speech with its echo for
aecmos (package espeakng-loader). Then the float and the integer model, of the same shapes, are timed in turns by the
processor time of their one thread, with the float model once more as a control.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from quantized_inputs import RATE, VOICES, WORDS, Array, Speech, _mel, _windows, files
from report import machine

import tilewright as tw
from tilewright.frontend.formats.import_model import Entry
from tilewright.quantize.cost import whole
from tilewright.quantize.loss import Loss
from tilewright.quantize.quantize import Quantized
from tilewright.quantize.source import Source

Samples = dict[str, Array]


def _magika(path: Path, count: int, rng: np.random.Generator) -> Samples:
    return {"bytes": files(path.with_name("config.min.json"), count, rng)[:, None]}


def text_lines(_path: Path, count: int, rng: np.random.Generator) -> Samples:
    """Pictures [count, 1, 3, 48, 192] of words in fonts of this machine, half of them upside down, -1 to 1."""
    from PIL import Image, ImageDraw, ImageFont

    fonts = sorted(Path("/usr/share/fonts").rglob("*.ttf"))
    words = sorted({word for word in Path("/usr/share/common-licenses/GPL-3").read_text().split() if word.isalnum()})
    made = []
    for number in range(count):
        font = ImageFont.truetype(fonts[rng.integers(len(fonts))], int(rng.integers(18, 40)))
        text = " ".join(words[i] for i in rng.integers(len(words), size=rng.integers(1, 4)))
        paper, ink = rng.integers(120, 256, 3), rng.integers(0, 100, 3)
        if rng.random() < 0.3:
            paper, ink = ink, paper
        left, top, right, bottom = font.getbbox(text)
        picture = Image.new("RGB", (int(right - left) + 12, int(bottom - top) + 10), tuple(map(int, paper)))
        ImageDraw.Draw(picture).text((6 - left, 5 - top), text, font=font, fill=tuple(map(int, ink)))
        picture = picture.rotate(rng.uniform(-3, 3), fillcolor=tuple(map(int, paper)))
        width = min(192, max(8, round(48 * picture.width / picture.height)))
        pixels = np.zeros((48, 192, 3))
        pixels[:, :width] = np.asarray(picture.resize((width, 48))) / 127.5 - 1.0
        if number % 2:
            pixels[:, :width] = pixels[::-1, :width][:, ::-1]
        pixels[:, :width] += rng.standard_normal((48, width, 3)) * rng.uniform(0, 0.15)
        made.append(pixels.transpose(2, 0, 1)[None])
    return {"x": np.asarray(made, np.float32)}


def chords(_path: Path, count: int, rng: np.random.Generator) -> Samples:
    """Two seconds at 22,050 Hz, [count, 1, 43844, 1]: one to five notes at a time, decaying harmonics, some noise."""
    clock = np.arange(43844) / 22050
    made = []
    for _ in range(count):
        sound = rng.standard_normal(len(clock)) * 10 ** rng.uniform(-4, -2)
        for _ in range(rng.integers(1, 6)):
            for pitch in rng.integers(36, 90, rng.integers(1, 6)):
                hertz, start = 440 * 2 ** ((pitch - 69) / 12), rng.uniform(0, 1.6)
                age = np.maximum(clock - start, 0)
                envelope = (clock >= start) * np.minimum(age / 0.01, 1) * np.exp(-age * rng.uniform(1, 6))
                falling = rng.uniform(0.8, 2)
                for k in range(1, 12):
                    if k * hertz < 11000:
                        sound += envelope * np.sin(2 * np.pi * k * hertz * clock + rng.uniform(0, 6)) / k**falling * 0.2
        made.append(sound / max(np.abs(sound).max(), 1e-9) * rng.uniform(0.2, 0.95))
    return {"serving_default_input_2:0": np.asarray(made, np.float32)[:, None, :, None]}


def echoes(_path: Path, count: int, rng: np.random.Generator) -> Samples:
    """Spectra [count, 1, 3, 200, 160]: the far end, the microphone, what an echo canceller left; a state of zeros."""
    speech = Speech()
    spoken = [speech.say(word, voice) for word in WORDS for voice in VOICES]
    size = 200 * 256 + 512
    made = []
    for _ in range(count):
        far, near = (_speech(spoken, size, rng) for _ in range(2))
        room = rng.standard_normal(2000) * np.exp(-np.arange(2000) / rng.uniform(100, 500))
        echo = np.convolve(far, room / np.abs(room).sum())[:size]
        noise = rng.standard_normal(size) * 10 ** rng.uniform(-4, -2)
        microphone = echo * rng.uniform(0.3, 3) + near * (rng.random() < 0.7) + noise
        left = microphone - echo * rng.uniform(0, 2) + rng.standard_normal(size) * 1e-4
        made.append([_decibels(one) for one in (far, microphone, left)])
    return {"input": np.asarray(made, np.float32)[:, None], "h0": np.zeros((count, 4, 1, 64), np.float32)}


def _speech(spoken: list[Array], size: int, rng: np.random.Generator) -> Array:
    sound, at = np.zeros(size), int(rng.integers(4000))
    while at < size:
        word = spoken[rng.integers(len(spoken))]
        part = word[: size - at]
        sound[at : at + len(part)] += part / 32768 * rng.uniform(0.3, 1)
        at += len(word) + int(rng.integers(500, 8000))
    return sound


def _decibels(sound: Array) -> Array:
    """160 bands of mel of 200 windows: decibels below the loudest, by 40, plus one."""
    spectra = np.abs([np.fft.rfft(window * np.hanning(512)) for window in _windows(sound, 512, 256)][:200]) ** 2
    power = np.maximum(spectra @ _mel(512, 160, 0.0, RATE / 2, RATE), 1e-10)
    return (np.maximum(10 * np.log10(power / power.max()), -80) + 40) / 40


#: name -> (file, inputs to quantize, inputs to test, budget, samples of the path, a count and a generator)
MODELS: dict[str, tuple[str, int, int, float, Callable[[Path, int, np.random.Generator], Samples]]] = {
    "magika": ("onnx/magika/model.onnx", 1600, 1600, 0.005, _magika),
    "ppocr_cls": ("onnx/ppocr_cls/ch_ppocr_mobile_v2.0_cls_infer.onnx", 1600, 1600, 0.005, text_lines),
    "basic_pitch": ("onnx/basic_pitch/nmp.onnx", 64, 64, 0.02, chords),
    "aecmos": ("onnx/aecmos/Run_1663829550_Stage_0.onnx", 128, 128, 0.01, echoes),
}


def compare(name: str, root: Path, most: int, reasons: bool) -> None:
    """Print the row of a model, and if wished a line a layer: its loss alone, its times, why it is in float."""
    file, many, test, budget, make = MODELS[name]
    path = root / file
    many, test = min(many, most), min(test, most)
    data = make(path, many + test, np.random.default_rng(11))
    start = time.process_time()
    found = tw.quantize(str(path), {key: array[:many] for key, array in data.items()}, max_loss=budget, threads=1)
    assert isinstance(found, Quantized)
    seconds = time.process_time() - start
    unseen = [
        {key: array[many + number] for key, array in data.items()} for number in range(len(array_of(data)) - many)
    ]
    shapes = {key: one.shape for key, one in unseen[0].items()}
    source = Source.of(str(path), shapes, Entry.of(None, None), for_onnx=False)
    exact, ours = tw.compile(source.module, threads=1), tw.compile(source.rewritten(found.recipe), threads=1)
    loss = Loss()
    for sample in unseen:
        loss.add(*([np.asarray(value) for value in model.run(_used(model, sample))] for model in (exact, ours)))
    time_of = whole(exact, ours, unseen[0])
    measure, layers = found.recipe.settings["measure"], found.recipe.choices
    print(
        f"| {name} | {many} | {budget:.1%} {measure} | {found.recipe.losses[measure]:.2%}, at most "
        f"{found.recipe.settings['bound'] or 1.0:.2%} | {loss.by(measure):.2%} of {len(unseen)} | "
        f"{len(found.recipe.quantized)} of {len(layers)} | {time_of.exact * 1e3:.2f} | {time_of.integer * 1e3:.2f} "
        f"({time_of.control / time_of.exact:.1%}) | {seconds:.0f} s |",
        flush=True,
    )
    for one, choice in layers.items() if reasons else ():
        in_float, in_integers = (cost.seconds * 1e6 for cost in found.costs[one])
        print(
            f"    {one} | {found.alone[one].model_error:.3%} | {in_float:.0f} | {in_integers:.0f} | {choice.in_float}"
        )


def array_of(data: Samples) -> Array:
    """One of the arrays, for the number of samples."""
    return next(iter(data.values()))


def _used(model: Any, sample: Samples) -> Samples:
    return {spec.name: sample[spec.name] for spec in model.inputs}


def main() -> None:
    """Compare the models that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("root", type=Path)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--reasons", action="store_true", help="a line for each layer")
    parser.add_argument("--inputs", type=int, default=1600, help="of a half, at most")
    arguments = parser.parse_args()
    print(machine())
    print("| model | inputs | budget | held out | unseen | layers | float, ms | integers, ms (control) | search |")
    for name in arguments.models.split(","):
        compare(name, arguments.root, arguments.inputs, arguments.reasons)


if __name__ == "__main__":
    main()
