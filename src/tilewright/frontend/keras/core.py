"""Dense layers, activations, embeddings, masks and what passes its input on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.frontend.builders import functions
from tilewright.frontend.builders.product import einsum, matmul
from tilewright.frontend.idioms import cast, constant, dtype_of, like, rank_of, transpose
from tilewright.frontend.keras.layer import Layer
from tilewright.frontend.keras.quantized import dequantized, quantized_product
from tilewright.frontend.keras.registry import converts, layers
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


@converts("Dense", passes_mask=True)
def convert_dense(layer: Layer, inputs: Expr) -> Expr:
    if layer.quantization:
        return activated(layer, quantized_product(layer, inputs, None))
    inputs = layer.cast(inputs)  # whole numbers too, which no layer casts by itself
    if layer.get("use_bias", True):
        kernel, bias = layer.weight("kernel", "bias")
        return activated(layer, matmul(inputs, kernel) + bias)
    (kernel,) = layer.weight("kernel")
    return activated(layer, matmul(inputs, kernel))


@converts("EinsumDense")
def convert_einsum_dense(layer: Layer, inputs: Expr) -> Expr:
    equation = str(layer["equation"])
    if layer.quantization:
        return activated(layer, quantized_product(layer, inputs, equation))
    axes = layer.get("bias_axes")
    kernel, *bias = layer.weight("kernel", *(["bias"] if axes else []))
    made = einsum(equation, [layer.cast(inputs), kernel])
    return activated(layer, made + bias[0] if bias else made)


@converts("Embedding")
def convert_embedding(layer: Layer, inputs: Expr) -> Expr:
    table = dequantized(layer, "embeddings") if layer.quantization else layer.weight("embeddings")[0]
    return _looked_up(layer, table, inputs)


def _looked_up(layer: Layer, table: Expr, inputs: Expr) -> Expr:
    positions = inputs if dtype_of(inputs) in ("int32", "int64") else cast(inputs, "int32")
    if layer.get("mask_zero"):
        layer.set_mask(op.not_equal(positions, 0))
    return op.take(table, positions, axis=0)


@converts("ReversibleEmbedding")
def convert_reversible_embedding(layer: Layer, inputs: Expr, reverse: bool = False) -> Expr:
    tied = layer.get("tie_weights", True)
    if layer.quantization:
        layer.unsupported("a quantized ReversibleEmbedding")
    table, *back = layer.weight("embeddings", *([] if tied else ["reverse_embeddings"]))
    if not reverse:
        return _looked_up(layer, table, inputs)
    kernel = back[0] if back else transpose(table, (1, 0))
    wanted = layer.get("reverse_dtype")
    if wanted:
        inputs, kernel = cast(inputs, str(wanted)), cast(kernel, str(wanted))
    logits = matmul(inputs, kernel)
    cap = layer.get("logit_soft_cap")
    if cap is None:
        return logits
    limit = like(float(cap), logits)
    return op.tanh(logits / limit) * limit


@converts("Masking")
def convert_masking(layer: Layer, inputs: Expr) -> Expr:
    kept = op.any(
        op.not_equal(inputs, like(layer.get("mask_value", 0.0), inputs)),
        axis=(rank_of(inputs) - 1,), keepdims=True,
    )  # fmt: skip
    layer.set_mask(op.squeeze(kept, axis=(rank_of(inputs) - 1,)))
    return op.where(kept, inputs, 0)


@converts("Lambda", refuses=True)
def convert_lambda(layer: Layer, *inputs: Any, **more: Any) -> Any:
    layer.unsupported(
        "a Lambda layer holds Python code, which is never run; build the model with a layer of keras.layers or "
        "operations of keras.ops instead of it"
    )


@converts("TFSMLayer", "TorchModuleWrapper", "JaxLayer", "FlaxLayer", refuses=True)
def convert_foreign(layer: Layer, *inputs: Any, **more: Any) -> Any:
    layer.unsupported("it runs code of another framework, which is not in the file; compile that part by itself")


# --------------------------------------------- Layers that act in training alone: in inference they pass their input on
layers({
    "Identity ActivityRegularization Dropout SpatialDropout1D SpatialDropout2D": lambda layer, inputs: inputs,
    "SpatialDropout3D GaussianNoise GaussianDropout AlphaDropout": lambda layer, inputs: inputs,
}, passes_mask=True)  # fmt: skip
layers({"InputLayer": lambda layer, inputs=None: inputs, "StochasticDepth": lambda layer, x: x})


# The layers that networks of keras.applications bring along: `LayerScale` and others, which `keras.layers` has not.
@converts("LayerScale")
def convert_layer_scale(layer: Layer, x: Expr) -> Expr:
    """A factor for each channel (ConvNeXt)."""
    (gamma,) = layer.weight("variable")
    return x * gamma


@converts("CustomScaleLayer")
def convert_custom_scale(layer: Layer, inputs: Sequence[Expr]) -> Expr:
    """A branch, scaled, on what goes past it (InceptionResNetV2)."""
    if not isinstance(inputs, list | tuple) or len(inputs) != 2:
        layer.bad("it takes a list of two tensors")
    past, branch = inputs
    return past + branch * float(layer.get("scale"))


# ----------------------- Augmentation of images: what draws random numbers in training passes its input on in inference
@converts(
    "AugMix", "CutMix", "Equalization", "MixUp", "RandAugment", "RandomBrightness", "RandomColorDegeneration",
    "RandomColorJitter", "RandomContrast", "RandomCrop", "RandomElasticTransform", "RandomErasing", "RandomFlip",
    "RandomGaussianBlur", "RandomGrayscale", "RandomHue", "RandomInvert", "RandomPerspective", "RandomPosterization",
    "RandomRotation", "RandomSaturation", "RandomSharpness", "RandomShear", "RandomTranslation", "RandomZoom",
    "Solarization", "MaxNumBoundingBoxes",
)  # fmt: skip
def convert_augmentation(layer: Layer, data: Any) -> Any:
    """Images as they are, in the type in which the layer computes."""
    return cast(data, layer.compute_dtype) if isinstance(data, Expr) else data


@converts("Pipeline")
def convert_pipeline(layer: Layer, inputs: Any) -> Any:
    """Layers one behind the other."""
    for part in layer.list_inside(layer["layers"], "layers"):
        inputs = part(inputs)
    return inputs


# ---------------------------------------------------------------------------------------------------------- Activations
def activated(layer: Layer, value: Expr, key: str = "activation") -> Expr:
    """`value` through the activation that the layer's configuration names."""
    given = layer.get(key)
    name = activation_name(given)
    if name is not None:
        if name not in functions.ACTIVATIONS:
            layer.unsupported(f"the activation {name!r}")
        return functions.ACTIVATIONS[name](value)
    return layer.inside(given, key)(value)


def activation_name(given: Any) -> str | None:
    """The name of an activation function; None where it is a layer."""
    if given is None:
        return "linear"
    if isinstance(given, str):
        return given
    config = given.get("config") if isinstance(given, dict) else None
    if isinstance(config, str):
        return config
    if isinstance(given, dict) and given.get("class_name") == "function":
        return str(given.get("registered_name") or given.get("name"))
    return None


layers({
    "Activation": activated,
    "ELU": lambda layer, inputs: functions.elu(inputs, float(layer.get("alpha", 1.0))),
    "ThresholdedReLU": lambda layer, inputs: functions.threshold(inputs, float(layer.get("theta", 1.0)), 0.0),
    "LeakyReLU": lambda layer, inputs: op.nn.leaky_relu(
        inputs, alpha=float(layer.get("negative_slope", layer.get("alpha", 0.3)))
    ),
}, passes_mask=True)  # fmt: skip


@converts("ReLU", passes_mask=True)
def convert_relu(layer: Layer, inputs: Expr) -> Expr:
    slope, top, bottom = layer.get("negative_slope", 0.0), layer.get("max_value"), layer.get("threshold", 0.0)
    return relu(inputs, float(slope or 0), top, float(bottom or 0))


def relu(x: Expr, slope: float = 0.0, top: float | None = None, bottom: float = 0.0) -> Expr:
    """`x` where not below `bottom`, slope * (x - bottom) elsewhere, and at most `top`."""
    if not slope and not bottom:
        made: Expr = op.nn.relu(x)
    else:
        low = like(bottom, x)
        below = (x - low) * slope if slope else like(0, x)
        made = op.where(x >= low if slope else x > low, x, below)
    return made if top is None else op.minimum(made, float(top))


@converts("PReLU", passes_mask=True)
def convert_prelu(layer: Layer, inputs: Expr) -> Expr:
    (alpha,) = layer.weight("alpha")
    return op.nn.relu(inputs) + (alpha * -op.nn.relu(-inputs))


@converts("Softmax", passes_mask=True)
def convert_softmax(layer: Layer, inputs: Expr, mask: Any = None) -> Expr:
    axis = layer.get("axis", -1)
    return masked_softmax(inputs, mask, tuple(axis) if isinstance(axis, list | tuple) else (axis,))


def masked_softmax(inputs: Expr, mask: Any, axes: tuple[int, ...]) -> Expr:
    """Softmax over axes, with no share for what the mask forbids."""
    rank = rank_of(inputs)
    axes = tuple(axis % rank for axis in axes)
    if not isinstance(mask, Expr):
        return functions.stable_softmax(inputs, axes)
    mask = mask if dtype_of(mask) == "bool" else mask > 0.5
    large = -3e4 if dtype_of(inputs) == "float16" else -1e9
    made = functions.stable_softmax(op.where(mask, inputs, like(large, inputs)), axes)
    return op.where(mask, made, cast(constant(0, "float32"), dtype_of(made)))
