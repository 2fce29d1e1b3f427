"""`tw.quantize_aware(model, data)`: a float model with layers on fake codes, to be trained, then in integers.

aware = tw.quantize_aware("model.onnx", "images.npz", weight_bits=1, data_bits=2, batch=64)
y = relay.var("y", shape=(64,), dtype="int64")
loss = relay.nn.nll_loss(relay.nn.log_softmax(aware.results[0]), y, relay.const(np.ones(10, "float32")))
trainer = aware.trainer(loss, Adam(1e-3))
for images, labels in batches:
    trainer(x=images, y=labels)
result = aware.finish(trainer.values); result.compile().save("model.tw"); result.recipe.save("recipe.json")
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.compile import compile
from tilewright.errors import InputError
from tilewright.frontend.formats.import_model import Entry, import_model
from tilewright.frontend.formats.table import ModelSource
from tilewright.quantize.batch import of_batch
from tilewright.quantize.calibrate import Calibration
from tilewright.quantize.data import DataSource, inputs_of, read_samples
from tilewright.quantize.grid import Grid
from tilewright.quantize.groups import Group, prepared_groups
from tilewright.quantize.network import Network
from tilewright.quantize.quantize import Quantized
from tilewright.quantize.ranges import Array, Codes
from tilewright.quantize.recipe import Choice, Recipe
from tilewright.quantize.trained import KERNELS, TrainedLayer, packed, serial_obstacle, with_trained_layers
from tilewright.relay.ir.expr import Expr, Function, Tuple
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.runtime.model import Model
from tilewright.training import Optimizer, Trainer, training_step

RANGES = ("learned", "moving")
NORMS = ("folded", "batch")
#: The share of the old value in a moving average of ranges and of batch norms' statistics, a step.
_DECAY = np.float32(0.95)


@dataclass(frozen=True)
class Bits:
    """The codes of a layer: of its weights, and of the data that it reads. Kinds are those of `Grid`."""

    weights: int = 8
    data: int = 8
    weight_kind: str | None = None
    data_kind: str = "asymmetric"

    @property
    def weight_grid(self) -> Grid:
        """The codes of the weights: symmetric, or signs where there is one bit, unless the kind is stated."""
        grid = Grid(self.weights, self.weight_kind or ("bipolar" if self.weights == 1 else "symmetric"))
        if grid.kind == "asymmetric" and grid.bits == 8:
            raise InputError("asymmetric weights less their zero point fit into a byte up to 7 bits; use 'symmetric'")
        return grid

    @property
    def data_grid(self) -> Grid:
        """The codes of the data."""
        return Grid(self.data, self.data_kind)


def quantize_aware(
    model: ModelSource,
    data: DataSource,
    *,
    weight_bits: int = 8,
    data_bits: int = 8,
    weight_kind: str | None = None,
    data_kind: str = "asymmetric",
    end_bits: int | None = None,
    layers: Mapping[str, Bits | None] | None = None,
    ranges: str = "learned",
    batch_norms: str = "folded",
    batch: int | None = None,
    signature: str | None = None,
    outputs: str | Sequence[str] | None = None,
    threads: int | None = None,
) -> Aware:
    """Make `model` trainable with its convolutions and dense layers in codes of 1 to 8 bits.

    `data`, samples as of `quantize`, finds the first ranges. Kinds of codes are "symmetric", "asymmetric" (the data's
    default: unsigned with a zero point) and "bipolar" (odd numbers, of one bit signs: the default of 1-bit weights).
    `end_bits` are those of the first and the last layer; `layers` states some by name, None for float. `ranges` are
    "learned" with the weights (LSQ) or follow a "moving" average of what is seen. Batch norms are "folded" into the
    weights before, or stay and use the statistics of each "batch", folded into the scales at the end. `batch` is the
    number of samples a step; the model has a symbolic batch, or one of 1 that nothing depends on.

    Raises a `UserError` for settings that there are not, data that does not fit, and a model without such layers.
    """
    for name, value, known in (("ranges", ranges, RANGES), ("batch_norms", batch_norms, NORMS)):
        if value not in known:
            raise InputError(f"{name} is one of {', '.join(known)}; got {value!r}")
    entry = Entry.of(signature, outputs)
    mod = import_model(model, None, entry)
    inputs = inputs_of(mod["main"].params)
    samples = read_samples(data, inputs)
    own = {name: array.shape for name, array in samples[0].items()}
    everything = Bits(weight_bits, data_bits, weight_kind, data_kind)
    calibrated = import_model(model, own, entry) if _open(inputs) else mod
    main, groups = prepared_groups(calibrated, batch_norms == "batch")
    bits = _bits(groups, everything, end_bits, layers or {})
    groups = [group for group in groups if bits.get(group.layer.name) is not None]
    if not groups:
        raise InputError("the model has no convolution or dense layer with constant weights to train in codes")
    calibration = Calibration(calibrated.with_function("main", main), [group.layer for group in groups])
    calibration.run(samples, False, threads)
    trained = calibrated if batch is None else _of_batch(model, mod, own, batch, entry)
    network = Network(trained, bits, calibration.histograms, ranges == "learned", batch_norms)
    return Aware(mod, network, bits, threads)


def _of_batch(
    model: ModelSource, mod: IRModule, own: Mapping[str, Sequence[int]], batch: int, entry: Entry
) -> IRModule:
    """The model for `batch` samples at a time. Raises `InputError` where its graph fixes another number."""
    inputs = inputs_of(mod["main"].params)
    if all(one.shape[:1] == (None,) for one in inputs):
        return import_model(model, {name: (batch, *shape[1:]) for name, shape in own.items()}, entry)
    fixed = InputError(
        f"batch={batch}, but the model fixes that of {', '.join(map(str, inputs))}; export it with a symbolic batch"
    )
    main = mod["main"]
    wide = of_batch(main, [main.body], batch)
    if wide is None:
        raise fixed
    return infer_type(mod.with_function("main", Function(wide[0], wide[1][0])))


def _open(inputs: Sequence[Any]) -> bool:
    return any(None in one.shape for one in inputs)


def _bits(
    groups: Sequence[Group], everything: Bits, ends: int | None, stated: Mapping[str, Bits | None]
) -> dict[str, Bits]:
    """The codes of each layer that has some."""
    names = [group.layer.name for group in groups]
    for name in stated:
        if name not in names:
            raise InputError(f"the model has no layer {name!r}; its layers are {', '.join(names) or 'none'}")
    found: dict[str, Bits | None] = dict.fromkeys(names, everything)
    if ends is not None:
        found |= dict.fromkeys([*names[:1], *names[-1:]], Bits(ends, ends))
    found |= stated
    return {name: one for name, one in found.items() if one is not None}


class Aware:
    """A model in training: expressions of its `results` by `inputs` and parameters, to build a loss of.

    `parameters` are the first values of what is trained, by name; `finish` makes integers of later ones.
    """

    def __init__(self, source: IRModule, network: Network, bits: Mapping[str, Bits], threads: int | None) -> None:
        self.source, self.network, self.bits, self.threads = source, network, bits, threads
        self.inputs, self.results = network.inputs, network.training
        self.parameters = network.parameters
        self._simulation: Model | None = None

    def trainer(
        self,
        loss: Expr,
        optimizer: Optimizer,
        outputs: Sequence[Expr] = (),
        values: Mapping[str, Array] | None = None,
    ) -> AwareTrainer:
        """A compiled step that lowers `loss`, a scalar of `results` and other inputs; `outputs` are returned too.

        It starts from `values`, such as those of a trainer with another learning rate.
        """
        known = self._known(values)
        seen = [part for pair in self.network.seen.values() for part in pair]
        parameters = [self.network.variables[name] for name in self.parameters]
        step = training_step(loss, parameters, optimizer, [*outputs, *seen])
        trainer = Trainer(step, compile(step.module, threads=self.threads), known)
        return AwareTrainer(self.network, trainer, known, {var.name for var in step.inputs}, len(outputs))

    def simulate(self, inputs: Mapping[str, Array], values: Mapping[str, Array] | None = None) -> list[Array]:
        """The results of the float model with fake codes on a batch as in training, by `values` as of `finish`."""
        known = self._known(values)
        if self._simulation is None:
            params = [*self.inputs, *self.network.variables.values()]
            main = Function(params, Tuple(list(self.network.inference)))
            self._simulation = compile(infer_type(IRModule.from_expr(main)), threads=self.threads)
        given = {**inputs, **known}
        model = self._simulation
        return [np.asarray(value) for value in model.run({spec.name: given[spec.name] for spec in model.inputs})]

    def finish(self, values: Mapping[str, Array] | None = None, kernel: str = KERNELS[0]) -> Quantized:
        """The model in integers by `values`, those of a trainer, with its recipe, which makes it again.

        Layers of few bits are products of bytes, or of "bit-serial" operators where their codes allow it.
        """
        if kernel not in KERNELS:
            raise InputError(f"kernel is one of {', '.join(KERNELS)}; got {kernel!r}")
        known = self._known(values)
        choices, trained = {}, {}
        for name, group in self.network.groups.items():
            trained[name] = one = self._trained(name, group, known, kernel)
            codes = Codes(one.scale, one.zero, "int8" if one.data_grid.least < 0 else "uint8")
            choices[name] = Choice(group.layer.operator, group.layer.tensors, (codes,), one.weight_scales)
        settings = {"method": "trained", "batch_norms": self.network.norms}
        recipe = Recipe(choices, settings, trained=trained)
        return Quantized(with_trained_layers(self.source, trained, self.network.norms), recipe)

    def _known(self, values: Mapping[str, Array] | None) -> dict[str, Array]:
        known = {**self.parameters, **self.network.buffers, **(values or {})}
        for name, value in known.items():
            if name not in self.network.variables:
                raise InputError(f"the model in training has no parameter {name!r}; pass `values` of its trainer")
            if not np.isfinite(value).all():
                raise InputError(f"{name} holds NaN or infinity after training; lower the learning rate")
        return {name: np.asarray(value, np.float32) for name, value in known.items()}

    def _trained(self, name: str, group: Group, known: Mapping[str, Array], kernel: str) -> TrainedLayer:
        of_data, of_weights = self.network.data[name], self.network.weights[name]
        (scale, zero), (scales, zeros) = of_data.trained(known), of_weights.trained(known)
        codes = of_weights.grid.codes(known[f"{name}:weight"], scales, zeros)
        multiplier, bias = scales.reshape(-1) * scale, known[f"{name}:bias"]
        if group.norm is not None:
            gain = known[f"{name}:gamma"] / np.sqrt(known[f"{name}:variance"] + np.float32(group.norm.epsilon))
            multiplier, bias = multiplier * gain, (bias - known[f"{name}:mean"]) * gain + known[f"{name}:beta"]
        serial = kernel != KERNELS[0] and not serial_obstacle(group, of_weights.grid, of_data.grid, int(zero))
        vectors = {"weight_scales": scales, "multiplier": multiplier, "bias": bias}
        return TrainedLayer(
            of_weights.grid.bits, of_weights.grid.kind, of_data.grid.bits, of_data.grid.kind, float(scale), int(zero),
            codes=packed(codes), kernel=kernel if serial else KERNELS[0],
            **{key: tuple(map(float, vector.reshape(-1))) for key, vector in vectors.items()},
        )  # fmt: skip


class AwareTrainer:
    """A trainer that also keeps what follows the data: ranges that are not learned, statistics of batch norms."""

    def __init__(
        self, network: Network, trainer: Trainer, values: Mapping[str, Array], used: Collection[str], outputs: int
    ) -> None:
        self._network, self._trainer, self._outputs = network, trainer, outputs
        self._buffers = {name: values[name] for name in network.buffers}
        self._ends = {fake.name: fake.ends(values) for fake in network.data.values()}
        self._used = [name for name in self._buffers if name in used]

    def __call__(self, **inputs: Array) -> list[Array]:
        """One step on the `inputs`, by name: [loss, outputs …] of before the update."""
        found = self._trainer(**inputs, **{name: self._buffers[name] for name in self._used})
        seen = iter(found[1 + self._outputs :])
        for name in self._network.seen:
            self._follow(name, next(seen), next(seen))
        if not self._network.learned:
            parameters = self._trainer.parameters
            for layer, fake in self._network.weights.items():
                self._buffers |= fake.of_range(*fake.grid.of_weights(np.asarray(parameters[f"{layer}:weight"])))
        return found[: 1 + self._outputs]

    def _follow(self, name: str, *pair: Array) -> None:
        """Move averages towards the least and the largest of a tensor, or the mean and variance of a batch."""
        if name in self._network.groups:
            of_batch = f"{name}:mean", f"{name}:variance"
            self._buffers |= {key: _towards(self._buffers[key], value) for key, value in zip(of_batch, pair)}
            return
        low, high = (_towards(old, value) for old, value in zip(self._ends[name], pair, strict=True))
        self._ends[name] = low, high
        fake = next(one for one in self._network.data.values() if one.name == name)
        self._buffers |= fake.of_range(*fake.grid.range_of(low, high))

    @property
    def values(self) -> dict[str, Array]:
        """Parameters and what follows the data, as they are now: what `finish` takes."""
        return {name: np.asarray(value) for name, value in (self._trainer.parameters | self._buffers).items()}


def _towards(old: Array, value: Array) -> Array:
    return np.asarray(_DECAY * old + (1 - _DECAY) * value, np.float32)
