"""Networks of older Caffe in the terms of today's: layers of version 1 (named by numbers) and 0 (flat parameters).

https://github.com/BVLC/caffe/blob/master/src/caffe/util/upgrade_proto.cpp
"""

from __future__ import annotations

from tilewright.errors import ModelError, UnsupportedError
from tilewright.frontend.messages import Record

#: Names of version 1 that are not today's with underscores between words of capitals.
_SPELLED = {
    "ABSVAL": "AbsVal", "ARGMAX": "ArgMax", "BNLL": "BNLL", "HDF5_DATA": "HDF5Data", "HDF5_OUTPUT": "HDF5Output",
    "IM2COL": "Im2col", "LRN": "LRN", "MVN": "MVN", "RELU": "ReLU", "SOFTMAX_LOSS": "SoftmaxWithLoss", "TANH": "TanH",
}  # fmt: skip

#: Types of version 0 with the parameters of today that they have, and the fields of those.
_VERSION_0 = {
    "conv": ("Convolution", "convolution_param", "num_output biasterm group"),
    "im2col": ("Im2col", "convolution_param", ""),
    "innerproduct": ("InnerProduct", "inner_product_param", "num_output biasterm"),
    "pool": ("Pooling", "pooling_param", "pool kernelsize stride pad"),
    "lrn": ("LRN", "lrn_param", "local_size alpha beta k"), "concat": ("Concat", "concat_param", "concat_dim"),
}  # fmt: skip
#: Those without parameters.
_PLAIN = {
    "relu": "ReLU", "dropout": "Dropout", "softmax": "Softmax", "sigmoid": "Sigmoid", "tanh": "TanH", "bnll": "BNLL",
    "flatten": "Flatten", "split": "Split", "data": "Data", "softmax_loss": "SoftmaxWithLoss", "accuracy": "Accuracy",
}  # fmt: skip
#: Fields of version 0 that have another name today.
_FIELDS = {"biasterm": "bias_term", "kernelsize": "kernel_size"}
_WINDOWS = ("conv", "im2col")


def layers_of(net: Record) -> list[Record]:
    """The layers of a network as messages of today's kind, LayerParameter."""
    if net.layer and net.layers:
        raise ModelError("it has layers of two versions, `layer` and `layers`")
    if not net.layers:
        return list(net.layer)
    if any(layer.has("layer") for layer in net.layers):
        return _without_padding(net, [_of_version_0(net, layer) for layer in net.layers])
    return [_of_version_1(net, layer) for layer in net.layers]


def _new(net: Record, kind: str, **values: object) -> Record:
    return net.schema.new(kind, **values)


def _of_version_1(net: Record, layer: Record) -> Record:
    name = layer.type
    spelled = _SPELLED.get(name) or "".join(word.capitalize() for word in name.split("_"))
    values = {key: value for key, value in layer.given().items() if key not in ("type", "layer")}
    record = _new(net, "LayerParameter", **{**values, "type": spelled})
    record.extra = layer.extra
    return record


def _of_version_0(net: Record, connection: Record) -> Record:
    old = connection.layer
    values = {key: value for key, value in connection.given().items() if key in ("bottom", "top")}
    values |= {"name": old.name, "blobs": old.blobs}
    if old.type == "padding":
        return _new(net, "LayerParameter", **values, type="padding", convolution_param=_window(net, old))
    if old.type in _PLAIN:
        return _new(net, "LayerParameter", **values, type=_PLAIN[old.type])
    if old.type not in _VERSION_0:
        raise UnsupportedError(f"layer {old.name!r} is of the type {old.type!r} of version 0, which is not supported")
    kind, parameter, fields = _VERSION_0[old.type]
    given = {_FIELDS.get(field, field): getattr(old, field) for field in fields.split() if old.has(field)}
    if old.type in _WINDOWS:
        given |= _window(net, old).given()
    words = parameter.removesuffix("_param").split("_")
    message = "".join(word.upper() if word == "lrn" else word.capitalize() for word in words) + "Parameter"
    values[parameter] = _new(net, message, **given)
    return _new(net, "LayerParameter", **values, type=kind)


def _window(net: Record, old: Record) -> Record:
    """Kernel, stride and padding of a layer of version 0, as lists."""
    names = {"kernelsize": "kernel_size", "stride": "stride", "pad": "pad"}
    return _new(
        net, "ConvolutionParameter", **{today: [getattr(old, name)] for name, today in names.items() if old.has(name)}
    )


def _without_padding(net: Record, layers: list[Record]) -> list[Record]:
    """Layers of version 0 that pad, merged into the convolution or pooling that reads them."""
    paddings = {layer.top[0]: layer for layer in layers if layer.type == "padding" and layer.top}
    found = []
    for layer in layers:
        if layer.type == "padding":
            continue
        padding = paddings.get(layer.bottom[0]) if layer.bottom else None
        if padding is not None:
            pad = padding.convolution_param.pad
            name = {"Convolution": "convolution_param", "Pooling": "pooling_param"}.get(layer.type)
            if name is None or not padding.bottom:
                raise UnsupportedError(f"layer {layer.name!r} ({layer.type}) reads a padding layer")
            padded = getattr(layer, name).replaced(pad=pad if layer.type == "Convolution" else pad[0] if pad else 0)
            layer = layer.replaced(bottom=list(padding.bottom), **{name: padded})
        found.append(layer)
    return found
