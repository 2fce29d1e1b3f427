"""Inputs for trained models from what a machine holds: files, crops of pictures, synthesized speech and engines.

Speech needs the package espeakng-loader (eSpeak NG, its library and voices), photographs scikit-image.
"""

from __future__ import annotations

import ctypes
import json
import os
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
RATE = 16000
#: Words of the speech commands data set that the keyword model knows, and some that it does not.
WORDS = [
    *("down", "go", "left", "no", "off", "on", "right", "stop", "up", "yes"),
    *("bed", "bird", "cat", "dog", "happy", "house", "marvin", "sheila", "tree", "wow", "one", "two", "three"),
]
#: Voices of eSpeak NG with different pitch, speed and formants.
VOICES = ["en-us", "en", "en-gb-scotland", "en-us+m3", "en-us+f2", "en-us+m7", "en-us+f4", "en-us+croak"]
FOLDERS = ["/etc", "/usr/bin", "/usr/share", "/usr/include", "/usr/lib", "/usr/local", "/opt", "/root"]
#: Files of a folder that are looked at, in the order of its names: more of them than is needed of each suffix.
_LISTED = 40000


def files(config: Path, count: int, rng: np.random.Generator) -> Array:
    """Features int32[count, 2048] of files as magika reads them, as many of each suffix as there are."""
    settings = json.loads(config.read_text())
    by_suffix: dict[str, list[str]] = defaultdict(list)
    for folder in FOLDERS:
        listed = ((at, name) for at, folders, names in os.walk(folder) if not folders.sort() for name in sorted(names))
        for at, name in islice(listed, _LISTED):
            by_suffix[os.path.splitext(name)[1].lower()[:12]].append(f"{at}/{name}")
    rows: list[Array] = []
    seen: set[bytes] = set()
    order = [rng.permutation(len(by_suffix[suffix])) for suffix in sorted(by_suffix)]
    for turn in range(max(map(len, order))):
        for suffix, numbers in zip(sorted(by_suffix), order, strict=True):
            if turn < len(numbers) and len(rows) < count:
                row = _features(Path(by_suffix[suffix][numbers[turn]]), settings)
                if row is not None and row.tobytes() not in seen:
                    seen.add(row.tobytes())
                    rows.append(row)
    return np.stack(rows)[rng.permutation(len(rows))]


def _features(path: Path, settings: dict[str, Any]) -> Array | None:
    """The first and the last bytes of a file without white space, padded; None for one that the model does not read."""
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size < settings["min_file_size_for_dl"]:
            return None
        with path.open("rb") as file:
            first = file.read(settings["block_size"]).lstrip()
            file.seek(max(0, path.stat().st_size - settings["block_size"]))
            last = file.read().rstrip()
    except OSError:
        return None
    row = np.full(settings["beg_size"] + settings["end_size"], settings["padding_token"], np.int32)
    first, last = first[: settings["beg_size"]], last[-settings["end_size"] :]
    row[: len(first)] = np.frombuffer(first, np.uint8)
    row[len(row) - len(last) :] = np.frombuffer(last, np.uint8)
    return row


def crops(size: int, count: int, rng: np.random.Generator) -> Array:
    """Crops float32[count, size, size, 3], 0 to 255: four of five from photographs, the others from drawings."""
    from PIL import Image
    from skimage import data

    own = Path(data.__file__).parent
    photographs = (
        *("astronaut", "camera", "chelsea", "coffee", "coins", "motorcycle_left"),
        *("brick", "grass", "gravel", "retina", "rocket"),
    )
    photos = [next(own.glob(f"{name}.*")) for name in photographs]
    drawings = sorted(path for path in Path("/usr/share").rglob("*.png") if path.stat().st_size > 8000)
    faces = np.load(own / "lfw_subset.npy")[:100]
    pictures = [Image.open(path).convert("RGB") for path in [*photos, *drawings[:40]]]
    made = []
    for number in range(count):
        if number % 5 == 0:
            face = Image.fromarray((faces[rng.integers(100)] * 255).astype(np.uint8)).convert("RGB")
            made.append(face.resize((size, size), Image.Resampling.BILINEAR))
            continue
        group = pictures[len(photos) :] if number % 5 == 1 else pictures[: len(photos)]
        picture = group[rng.integers(len(group))]
        side = int(min(picture.size) * rng.uniform(0.3, 1.0))
        left, top = (int(rng.integers(extent - side + 1)) for extent in picture.size)
        box = (left, top, left + side, top + side)
        made.append(picture.crop(box).resize((size, size), Image.Resampling.BILINEAR))
    arrays = np.stack([np.asarray(one, np.float32) for one in made])
    mirrored = rng.random(count) < 0.5
    arrays[mirrored] = arrays[mirrored, :, ::-1]
    gain = rng.uniform(0.6, 1.2, (count, 1, 1, 1))
    # whole numbers, as a camera has them
    return np.rint(np.clip(arrays * gain, 0, 255)).astype(np.float32)[rng.permutation(count)]


def keywords(count: int, rng: np.random.Generator) -> Array:
    """Ten cepstral coefficients of 49 windows of a second, float32[count, 49, 10, 1]: synthesized words in noise."""
    speech = Speech()
    spoken = {(word, voice): speech.say(word, voice) for word in WORDS for voice in VOICES}
    keys = list(spoken)
    rows = []
    for _ in range(count):
        sound = spoken[keys[rng.integers(len(keys))]]
        pitch = rng.uniform(0.85, 1.2)
        sound = np.interp(np.arange(0, len(sound) - 1, pitch), np.arange(len(sound)), sound)[:RATE]
        whole = np.zeros(RATE)
        start = rng.integers(RATE - len(sound) + 1)
        whole[start : start + len(sound)] = sound / max(np.abs(sound).max(), 1e-9)
        whole += rng.standard_normal(RATE) * 10 ** rng.uniform(-4, -1.3)
        rows.append(cepstrum(whole / np.abs(whole).max() * rng.uniform(0.3, 1.0)))
    return np.stack(rows)[..., None].astype(np.float32)


class Speech:
    """eSpeak NG through its library."""

    def __init__(self) -> None:
        import espeakng_loader

        self._library = ctypes.cdll.LoadLibrary(espeakng_loader.get_library_path())
        self._rate = self._library.espeak_Initialize(2, 0, espeakng_loader.get_data_path().encode(), 0)
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)
        self._parts: list[Array] = []
        self._callback = kind(self._add)  # the library keeps the pointer
        self._library.espeak_SetSynthCallback(self._callback)

    def _add(self, samples: Any, count: int, _events: Any) -> int:
        if count:
            self._parts.append(np.ctypeslib.as_array(samples, (count,)).astype(np.float64))
        return 0

    def say(self, text: str, voice: str) -> Array:
        """`text` as sound at 16 kHz, without the silence around it."""
        self._parts.clear()
        if self._library.espeak_SetVoiceByName(voice.encode()) != 0:
            raise SystemExit(f"eSpeak NG has no voice {voice}")
        data = text.encode()
        self._library.espeak_Synth(data, ctypes.c_size_t(len(data) + 1), 0, 0, 0, 1, None, None)
        sound = np.concatenate(self._parts)
        loud = np.flatnonzero(np.abs(sound) > 200)
        sound = sound[loud[0] : loud[-1] + 1]
        return np.interp(np.arange(0, len(sound) - 1, self._rate / RATE), np.arange(len(sound)), sound)[:RATE]


def _mel(width: int, bands: int, low: float, high: float, rate: int) -> Array:
    """Triangles [width // 2 + 1, bands] at equal distances in mel."""
    ends = np.linspace(*(2595 * np.log10(1 + hertz / 700) for hertz in (low, high)), bands + 2)
    mels = 2595 * np.log10(1 + np.linspace(0, rate / 2, width // 2 + 1) / 700)
    rising = (mels[:, None] - ends[:-2]) / (ends[1:-1] - ends[:-2])
    falling = (ends[2:] - mels[:, None]) / (ends[2:] - ends[1:-1])
    return np.maximum(0, np.minimum(rising, falling))


def _windows(sound: Array, size: int, step: int) -> Iterator[Array]:
    return (sound[start : start + size] for start in range(0, len(sound) - size + 1, step))


def cepstrum(sound: Array) -> Array:
    """Windows of 30 ms each 20 ms, 40 bands from 20 to 4,000 Hz, their logarithm, the first 10 cosines."""
    hann = np.hanning(481)[:-1]
    spectra = np.abs([np.fft.rfft(window * hann, 512) for window in _windows(sound, 480, 320)])
    bands = np.log(spectra @ _mel(512, 40, 20.0, 4000.0, RATE) + 1e-6)
    cosines = np.cos(np.pi / 40 * np.outer(np.arange(40) + 0.5, np.arange(10)))
    return np.asarray(2 * bands @ cosines / np.sqrt(80))


def engines(count: int, rng: np.random.Generator) -> Array:
    """Clips of a toy engine, float32[count, 40, 640]: 5 frames of 128 bands in decibels, 40 windows a clip.

    Harmonics of a turning motor with its load and noise; every third rattles or has a harmonic too many.
    """
    clips = []
    bands = _mel(1024, 128, 0.0, RATE / 2, RATE)
    for number in range(count):
        time = np.arange(RATE * 2) / RATE
        turning = rng.uniform(25, 60) * (1 + 0.03 * np.sin(2 * np.pi * rng.uniform(0.5, 2) * time))
        phase = 2 * np.pi * np.cumsum(turning) / RATE
        sound = sum(np.sin(k * phase + rng.uniform(0, 6)) * rng.uniform(0.2, 1) / k for k in range(1, 30))
        if number % 3 == 0:
            sound = sound + rng.uniform(0.1, 0.8) * np.sin(rng.uniform(6, 20) * phase) * (rng.random(len(time)) < 0.3)
        sound = sound * 0.05 + rng.standard_normal(len(time)) * 10 ** rng.uniform(-3, -1.5)
        power = np.abs([np.fft.rfft(part * np.hanning(1024)) for part in _windows(sound, 1024, 512)]) ** 2
        decibels = 10 * np.log10(power @ bands + 1e-7)
        clips.append([decibels[start : start + 5].reshape(-1) for start in range(40)])
    return np.asarray(clips, np.float32)
