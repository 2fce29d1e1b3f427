"""MXNet among the formats: a symbol with its parameters beside it, or a pair of both."""

from tilewright.frontend.mxnet import converts, from_mxnet
from tilewright.frontend.mxnet.load import is_symbol, parameters_beside
from tilewright.frontend.two_files import PairFrontend

MXNET = PairFrontend(
    "mxnet", "an MXNet symbol", "a tuple of an MXNet symbol and its parameters", is_symbol, from_mxnet,
    parameters_beside, {"operators": converts},
)  # fmt: skip
