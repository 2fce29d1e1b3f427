"""`relay.frontend`: the importers of Caffe, Core ML, Darknet, MXNet and Paddle by their classic names and signatures.

Each returns a module and its parameters: none, since the weights are constants of the module.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright.compat.ir.meanings import only
from tilewright.compat.ir.module import IRModule
from tilewright.compat.runtime.array import NDArray
from tilewright.errors import UnsupportedError
from tilewright.frontend.caffe import from_caffe as import_caffe
from tilewright.frontend.caffe2 import from_caffe2 as import_caffe2
from tilewright.frontend.coreml import from_coreml as import_coreml
from tilewright.frontend.darknet import from_darknet as import_darknet
from tilewright.frontend.mxnet import from_mxnet as import_mxnet
from tilewright.frontend.paddle import from_paddle as import_paddle
from tilewright.frontend.two_files import is_pair

Shapes = Mapping[str, Sequence[int]]
Imported = tuple[IRModule, dict[str, NDArray]]


def from_coreml(model: Any, shape: Shapes | None = None) -> Imported:
    """A module for a `coreml.models.MLModel` of a package, or the path of one."""
    path = getattr(model, "package_path", model)
    if path is None:
        raise UnsupportedError("from_coreml needs a model that was saved: pass the path of the .mlpackage")
    mod, *_ = import_coreml(path, dict(shape or {}))
    return IRModule.of(mod), {}


def from_mxnet(
    symbol: Any, shape: Shapes | None = None, dtype: Any = "float32", arg_params: Any = None, aux_params: Any = None
) -> Imported:
    """A module for an `mxnet.symbol.Symbol` with its parameters, a block of Gluon, or the path of a symbol."""
    _only_float32("from_mxnet", dtype)
    given = {**(arg_params or {}), **(aux_params or {})}
    if hasattr(symbol, "collect_params"):  # a block of Gluon becomes a symbol when it is called with one
        import mxnet  # the caller has it: a block is one of its objects

        given = {name: value.data() for name, value in symbol.collect_params().items()}
        symbol = symbol(*(mxnet.sym.var(name) for name in shape or {"data": ()}))
    arrays = {name: value.asnumpy() if hasattr(value, "asnumpy") else value for name, value in given.items()}
    graph = symbol.tojson().encode() if hasattr(symbol, "tojson") else symbol
    mod, *_ = import_mxnet(graph, arrays or None, dict(shape or {}))
    return IRModule.of(mod), {}


def from_caffe(init_net: Any, predict_net: Any, shape_dict: Shapes | None = None, dtype_dict: Any = None) -> Imported:
    """A module for the NetParameter of a caffemodel and that of a prototxt, as messages, paths or bytes."""
    _only_float32("from_caffe", dtype_dict)
    mod, *_ = import_caffe(_text(predict_net), _bytes(init_net), dict(shape_dict or {}))
    return IRModule.of(mod), {}


def from_caffe2(
    init_net: Any, predict_net: Any, shape: Shapes | None = None, dtype: Any = "float32", freeze_params: bool = False
) -> Imported:
    """A module for two NetDefs, as messages, paths or bytes: that which fills the weights, and that which runs."""
    _only_float32("from_caffe2", dtype)
    mod, *_ = import_caffe2(_bytes(predict_net), _bytes(init_net), dict(shape or {}))
    return IRModule.of(mod), {}


def from_darknet(net: Any, shape: Any = None, dtype: Any = "float32") -> Imported:
    """A module for the path of a cfg, or a tuple of a cfg and its weights; heads return what Darknet's layers leave."""
    _only_float32("from_darknet", dtype)
    if not is_pair(net) and not isinstance(net, str | Path | bytes):
        raise UnsupportedError("from_darknet takes the path of a cfg, or (cfg, weights); a loaded network is not read")
    cfg, weights = net if is_pair(net) else (net, None)
    shapes = shape if isinstance(shape, Mapping) else {"data": shape} if shape else {}
    mod, *_ = import_darknet(cfg, weights, dict(shapes), decode=False)
    return IRModule.of(mod), {}


def from_paddle(program_or_layer: Any, shape_dict: Shapes | None = None, scope: Any = None) -> Imported:
    """A module for the path of a program, a tuple of one and its parameters, or a layer that `paddle.jit` loaded."""
    if hasattr(program_or_layer, "state_dict"):
        import paddle  # the caller has it: a layer is one of its objects

        with tempfile.TemporaryDirectory() as folder:
            paddle.jit.save(program_or_layer, str(Path(folder) / "net"))
            (program,) = [one for one in Path(folder).iterdir() if one.suffix in (".json", ".pdmodel")]
            pair: Any = (program.read_bytes(), (Path(folder) / "net.pdiparams").read_bytes())
    else:
        pair = program_or_layer if is_pair(program_or_layer) else (program_or_layer, None)
    mod, *_ = import_paddle(pair[0], pair[1], dict(shape_dict or {}))
    return IRModule.of(mod), {}


def _bytes(net: Any) -> Any:
    """A message as its encoding."""
    return net.SerializeToString() if hasattr(net, "SerializeToString") else net


def _text(net: Any) -> Any:
    """A message as text, whose layers are named even where the schemas of two forks number them differently."""
    return str(net).encode() if hasattr(net, "SerializeToString") else net


def _only_float32(function: str, dtype: Any) -> None:
    """Weights keep their own types and inputs are float32: requests of other types are refused."""
    for one in dtype.values() if isinstance(dtype, Mapping) else (dtype,):
        only(function, "dtype", one if one is None else str(one), "float32")
