"""Random Keras models over sequences, tables and images whose sizes stay open, in every way that sizes are given.

    KERAS_BACKEND=tensorflow python -m bench.frontends.random_keras_sequences [--seeds 0 200] [--formats keras,saved]
        [--sizes symbolic,partly,fixed] [--compile] [--log FILE] [--seconds 300]

A model is one of recurrent layers (stacked, in both directions, backwards, with masks, states and recurrent dropout),
`TimeDistributed`, dilated and causal convolutions, attention and joins over a sequence whose length is open in two of
three models; or preprocessing layers over a table, or over images. Each is read from its `.keras` archive and from the
SavedModel that `export` writes with the same symbolic dimensions; "symbolic" passes no `input_shapes` and runs one
module at several sizes, 1 among them; "partly" fixes one of them; "fixed" all. Results are compared with Keras'. A file
is "read" where it is not refused; one in twenty has text as input and has to be refused by name as a SavedModel. A
SavedModel that TensorFlow runs otherwise than Keras (steps counted by the batch, images augmented at random) is faulty,
and has to be refused for that."""

from __future__ import annotations

import functools
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.frontends.compared import BOUND, compare_cases, options
from bench.frontends.keras_networks import difference, ours
from bench.frontends.random_keras import Draw

import keras  # isort: skip  (behind what chooses its backend)
import numpy as np  # isort: skip
from keras import layers, ops  # isort: skip

from tilewright.frontend.keras import from_keras  # isort: skip
from tilewright.frontend.tensorflow import from_tensorflow  # isort: skip

Feed = Callable[[np.random.Generator, int, int], np.ndarray]


class Made(NamedTuple):
    """A model, and for each of its inputs what makes an array of a batch and a length."""

    model: Any
    feeds: list[Feed]
    has_text: bool


# ----------------------------------------------------------------------------------------------------------- sequences
def _recurrent(draw: Draw, x: Any, sequences: bool = True) -> Any:
    kind = draw.of([layers.LSTM, layers.GRU, layers.SimpleRNN])
    settings: dict[str, Any] = {
        "return_sequences": sequences, "recurrent_dropout": draw.of([0.0, 0.0, 0.3]), "dropout": draw.of([0.0, 0.2]),
        "go_backwards": draw.yes(0.2), "use_bias": draw.yes(0.8),
        "activation": draw.of(["tanh", "tanh", "relu", "sigmoid", "softsign"]),
    }  # fmt: skip
    if kind is layers.GRU:
        settings["reset_after"] = draw.yes()
    if draw.yes(0.3):
        settings["go_backwards"] = False
        return layers.Bidirectional(kind(3, **settings), merge_mode=draw.of(["concat", "sum", "mul", "ave"]))(x)
    if draw.yes(0.15):
        cells = [draw.of([layers.LSTMCell, layers.GRUCell, layers.SimpleRNNCell])(draw.of([3, 4])) for _ in range(2)]
        return layers.RNN(cells, return_sequences=sequences, go_backwards=draw.yes(0.2))(x)
    if draw.yes(0.15):
        every, *states = kind(4, return_state=True, **settings)(x)
        tail = states[0]
        return every + ops.expand_dims(tail, 1) if sequences else layers.Concatenate()([every, tail])
    return kind(draw.of([4, 5]), **settings)(x)


def _distributed(draw: Draw, x: Any) -> Any:
    inner = draw.of([
        lambda: layers.Dense(4, activation=draw.activation()), lambda: layers.LayerNormalization(),
        lambda: layers.Dropout(0.2), lambda: layers.Reshape((x.shape[-1],)),
    ])()  # fmt: skip
    return layers.TimeDistributed(inner)(x)


def _convolved(draw: Draw, x: Any) -> Any:
    padding = draw.of(["same", "causal", "causal", "valid"] if x.shape[1] else ["same", "causal", "causal"])
    return draw.of([
        lambda: layers.Conv1D(5, draw.of([1, 2, 3]), padding=padding, dilation_rate=draw.of([1, 2, 3]),
                              activation=draw.activation()),
        lambda: layers.Conv1D(4, 2, strides=draw.of([1, 2]), padding=draw.of(["same", "causal"])),
        lambda: layers.SeparableConv1D(5, 2, padding="same"), lambda: layers.DepthwiseConv1D(2, padding="same"),
        lambda: layers.AveragePooling1D(2, 1, "same"), lambda: layers.MaxPooling1D(2, 1, "same"),
    ])()(x)  # fmt: skip


def _attended(draw: Draw, x: Any) -> Any:
    return draw.of([
        lambda: layers.MultiHeadAttention(2, 3, dropout=0.1)(x, x, use_causal_mask=draw.yes(0.3)),
        lambda: layers.Attention(use_scale=draw.yes())([x, x], use_causal_mask=draw.yes(0.3)),
        lambda: layers.AdditiveAttention()([x, x]), lambda: layers.GroupQueryAttention(3, 4, 2)(x, x),
    ])()  # fmt: skip


def _plain(draw: Draw, x: Any) -> Any:
    return draw.of([
        lambda: layers.Dense(5, activation=draw.activation())(x), lambda: layers.LayerNormalization()(x),
        lambda: layers.BatchNormalization()(x), lambda: layers.SpatialDropout1D(0.2)(x), lambda: layers.Dropout(0.3)(x),
        lambda: layers.GaussianNoise(0.1)(x), lambda: layers.Activation(draw.activation())(x),
        lambda: layers.EinsumDense("abc,cd->abd", (None, 5), "d")(x), lambda: layers.UnitNormalization()(x),
        lambda: x - ops.mean(x, axis=1, keepdims=True), lambda: ops.flip(x, axis=1),
        lambda: ops.cumsum(x, axis=1) * 0.1,
        lambda: layers.ZeroPadding1D(1)(x), lambda: ops.softmax(x, axis=1), lambda: layers.UpSampling1D(2)(x),
    ])()  # fmt: skip


def _tokens(draw: Draw, length: int | None) -> tuple[Any, Any, Feed]:
    kind = draw.of(["int32", "int64", "float32"])
    tokens = keras.Input((length,), dtype=kind, name="tokens")

    def feed(rng: np.random.Generator, batch: int, steps: int) -> np.ndarray:
        found = rng.integers(1, 11, (batch, steps))
        for row in range(batch):
            found[row, steps - row % steps :] = 0
        return found.astype(kind)

    return tokens, layers.Embedding(11, 5, mask_zero=draw.yes(0.6))(tokens), feed


def _series(draw: Draw, length: int | None, name: str) -> tuple[Any, Any, Feed]:
    series = keras.Input((length, 4), name=name)
    masked = draw.yes(0.3)

    def feed(rng: np.random.Generator, batch: int, steps: int) -> np.ndarray:
        found = rng.normal(0, 1, (batch, steps, 4)).astype("float32")
        if masked:
            found[:, steps - steps // 3 :] = 0
        return found

    return series, layers.Masking()(series) if masked else series, feed


def _as_long(inputs: Sequence[Any], feeds: Sequence[Feed], one: Any, other: Any) -> bool:
    """True where two tensors have the same length, which their shapes do not tell where it is open."""
    arrays = [feed(np.random.default_rng(0), 2, 7) for feed in feeds]
    first, second = keras.Model(inputs, [one, other])(arrays)
    return bool(first.shape == second.shape)


def _sequence_model(draw: Draw) -> Made:
    length = None if draw.yes(0.67) else 7
    given, x, feed = _tokens(draw, length) if draw.yes(0.35) else _series(draw, length, "series")
    inputs, feeds, found = [given], [feed], [x]
    if draw.yes(0.2):
        other, y, again = _series(draw, length, "other")
        inputs, feeds = [given, other], [feed, again]
        found.append(layers.Dense(x.shape[-1])(y))
    for _ in range(draw.of([2, 3, 5])):
        from_ = found[-1] if draw.yes(0.8) else draw.of(found)
        alike = [one for one in found if one is not from_ and one.shape == from_.shape]
        if alike and draw.yes(0.3) and _as_long(inputs, feeds, from_, alike[0]):
            join = draw.of([layers.Add, layers.Multiply, layers.Maximum, layers.Concatenate])
            found.append(join()([from_, alike[0]]))
            continue
        try:
            kinds = [_recurrent, _recurrent, _recurrent, _distributed, _convolved, _convolved, _attended, _plain]
            found.append(draw.of(kinds)(draw, from_))
        except (ValueError, NotImplementedError):  # settings that Keras refuses
            continue
    x, outputs = found[-1], []
    pooled = draw.of([
        lambda: _recurrent(draw, x, False), lambda: layers.GlobalAveragePooling1D()(x),
        lambda: layers.GlobalMaxPool1D()(x), lambda: x[:, -1], lambda: ops.max(x, axis=1), lambda: x,
    ])()  # fmt: skip
    outputs.append(layers.Dense(3, activation=draw.of(["softmax", None, "sigmoid"]))(pooled))
    if draw.yes(0.3):
        outputs.append(x)
    return Made(keras.Model(inputs, outputs if len(outputs) > 1 else outputs[0]), feeds, False)


# ------------------------------------------------------------------------------------------------------- preprocessing
def _table_model(draw: Draw) -> Made:
    rng = np.random.default_rng(draw.of(range(1000)))
    numbers, codes = keras.Input((3,), name="numbers"), keras.Input((2,), dtype="int32", name="codes")
    edges = sorted(rng.normal(0, 1, 3).round(2).tolist())
    mode = draw.of(["one_hot", "multi_hot", "count", "int"])
    measured = layers.Normalization(axis=draw.of([-1, None]))
    measured.adapt(rng.normal(1, 2, (20, 3)).astype("float32"))
    buckets = layers.Discretization(bin_boundaries=edges, output_mode=mode)(numbers)
    encoded = layers.CategoryEncoding(6, output_mode=draw.of(["multi_hot", "count"]))(codes)
    scaled = layers.Rescaling(draw.of([0.1, 2.0]), 0.5)(numbers)
    parts = [measured(numbers), ops.cast(buckets, "float32"), encoded, scaled]
    if draw.yes():
        found = layers.IntegerLookup(vocabulary=[1, 2, 4], output_mode=draw.of(["one_hot", "multi_hot"]))(codes)
        parts.append(layers.Flatten()(found))
    parts = [layers.Flatten()(part) for part in parts]
    if draw.yes(0.3):  # keras.layers joins whole numbers and floats as keras.ops promotes them
        parts.append(codes)
    joined = layers.Concatenate()(parts)
    model = keras.Model([numbers, codes], layers.Dense(3)(layers.Dropout(0.1)(joined)))
    return Made(model, [lambda r, b, _: r.normal(0, 1.5, (b, 3)).astype("float32"),
                        lambda r, b, _: r.integers(0, 6, (b, 2)).astype("int32")], False)  # fmt: skip


def _image_model(draw: Draw) -> Made:
    extent = None if draw.yes(0.4) else 9
    image = keras.Input((extent, extent, 3), name="image")
    x = draw.of([layers.Rescaling(1 / 127.5, -1.0), layers.Rescaling(1 / 255)])(image)
    if extent is not None or draw.yes(0.4):
        how = draw.of(["bilinear", "nearest", "bicubic", "area"])
        size = layers.Resizing(draw.of([6, 8, 12]), 8, interpolation=how)
        x = draw.of([size, layers.CenterCrop(5, 6)])(x) if extent else size(x)
    x = draw.of([layers.RandomFlip(), layers.RandomRotation(0.1), layers.RandomContrast(0.2), layers.Dropout(0.2)])(x)
    x = layers.Normalization(mean=[0.1, 0.2, 0.3], variance=[1.0, 2.0, 0.5])(x)
    x = layers.Conv2D(4, 3, dilation_rate=draw.of([1, 2]), padding="same", activation=draw.activation())(x)
    if draw.yes(0.3):
        x = layers.MaxPooling2D(2)(x)
    x = draw.of([layers.GlobalAveragePooling2D(), layers.GlobalMaxPooling2D()])(x)
    return Made(keras.Model(image, layers.Dense(3)(x)), [
        lambda r, b, n: r.uniform(0, 255, (b, extent or n + 6, extent or n + 6, 3)).astype("float32")
    ], False)  # fmt: skip


def _text_model(draw: Draw) -> Made:
    text = keras.Input((2,), dtype="string", name="text")
    found = layers.StringLookup(vocabulary=["a", "b", "cd"], output_mode="multi_hot")(text)
    words = np.array(["a", "b", "cd", "zz"], dtype=object)
    return Made(keras.Model(text, layers.Dense(3)(found)), [lambda r, b, _: words[r.integers(0, 4, (b, 2))]], True)


@functools.lru_cache(maxsize=1)
def network(seed: int) -> Made:
    """The model of a seed, all of its weights drawn at random."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(seed)
    draw = Draw(seed)
    share = draw.rng.random()
    kind = _text_model if share < 0.05 else _table_model if share < 0.15 else _image_model if share < 0.25 else None
    made = (kind or _sequence_model)(draw)
    rng = np.random.default_rng(seed)
    for weight in made.model.weights:
        kind_ = weight.path.split("/")[-1]
        if kind_ in ("gamma", "moving_variance"):
            weight.assign(rng.uniform(0.8, 1.2, weight.shape).astype("float32"))
        elif kind_ in ("beta", "bias", "moving_mean", "alpha"):
            weight.assign(rng.normal(0, 0.1, weight.shape).astype("float32"))
    return made


# ---------------------------------------------------------------------------------------------------------- comparison
def _arrays(made: Made, seed: int, batch: int, length: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [feed(rng, batch, length) for feed in made.feeds]


def _given(
    kind: str, seed: int, specs: Sequence[Any], arrays: Sequence[np.ndarray]
) -> dict[str, tuple[Any, ...]] | None:
    """`input_shapes` for a way that sizes are given."""
    if kind == "symbolic":
        return None
    shapes = {spec.name: tuple(array.shape) for spec, array in zip(specs, arrays)}
    if kind == "fixed":
        return shapes
    keep_batch = seed % 2 == 0
    chosen: dict[str, tuple[Any, ...]] = {}
    for spec in specs:
        names = ["batch", *(f"size_{position}" for position in range(1, len(spec.shape)))]
        chosen[spec.name] = tuple(
            size if isinstance(known, int) or (position == 0) != keep_batch else names[position]
            for position, (size, known) in enumerate(zip(shapes[spec.name], spec.shape))
        )
    return chosen


class _Files:
    """The model of a seed in a format, written once for all ways that sizes are given; removed with the next."""

    def __init__(self, seed: int, form: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.path = str(Path(self._folder.name) / ("model.keras" if form == "keras" else "saved"))
        if form == "keras":
            network(seed).model.save(self.path)
        else:
            network(seed).model.export(self.path, verbose=False)


_files = functools.lru_cache(maxsize=1)(_Files)


def compare(case: str, _folder: Path, compiled: bool) -> float:
    """The difference of a seed, a format and a way of giving sizes: "SEED FORMAT SIZES"."""
    number, form, kind = case.split()
    seed = int(number)
    made, path = network(seed), _files(seed, form).path
    read = from_keras if form == "keras" else from_tensorflow
    names = [one.name for one in made.model.inputs]
    sizes = [(2, 7)] if kind == "fixed" else [(2, 7), (3, 7), (1, 7)] if made.model.inputs[0].shape[1:2] == (7,) else [
        (2, 7), (3, 5), (1, 4)
    ]  # fmt: skip
    first = _arrays(made, seed, *sizes[0])
    every = read(path)[1] if kind != "symbolic" else []
    order = [spec for name in names for spec in every if spec.name == name]
    module, specs = read(path, _given(kind, seed, order, first))
    worst = 0.0
    for batch, length in sizes:
        if kind == "partly":
            batch, length = (batch, 7) if seed % 2 == 0 else (2, length)
        arrays = _arrays(made, seed, batch, length)
        by_name = dict(zip(names, arrays))
        wanted = made.model(arrays if len(arrays) > 1 else arrays[0], training=False)
        wanted = [np.asarray(one) for one in (wanted if isinstance(wanted, list | tuple) else [wanted])]
        found = ours(module, {spec.name: by_name[spec.name] for spec in specs}, compiled)
        worst = max(worst, difference(found, wanted))
    return worst


def verdict(line: str) -> str:
    """The kind of a line: agrees, DIFFERS, faulty (refused because the file is wrong), refused, or what went wrong."""
    rest = line.partition(": ")[2]
    if rest.startswith(("agrees", "DIFFERS")):
        return rest.partition(",")[0]
    if rest.startswith("UnsupportedError"):
        faulty = "a fault of the Keras that exported it" in rest
        return "faulty" if faulty or "StatelessRandom" in rest else "text" if "string" in rest else "refused"
    return rest.partition(":")[0]


def main() -> None:
    """Print a line a case, and how many came to what."""
    parser = options(__doc__ or "")
    parser.add_argument("--formats", default="keras,saved")
    parser.add_argument("--sizes", default="symbolic,partly,fixed")
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 200))
    args = parser.parse_args()
    cases = [
        f"{seed} {form} {kind}"
        for seed in range(*args.seeds)
        for form in args.formats.split(",")
        for kind in args.sizes.split(",")
    ]
    lines = compare_cases(cases, args, compare, lambda _: BOUND)
    found = Counter(verdict(line) for line in lines)
    print(f"seeds {args.seeds[0]} to {args.seeds[1] - 1}: {dict(found)}")
    whole = len(lines) - found["text"] - found["faulty"]
    print(f"read: {found['agrees'] + found['DIFFERS']} of {whole}")


if __name__ == "__main__":
    main()
