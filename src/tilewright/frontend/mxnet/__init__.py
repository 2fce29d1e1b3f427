"""MXNet models to Relay: a symbol and its parameters, one converter function an operator."""

from tilewright.frontend.mxnet.convert import from_mxnet
from tilewright.frontend.mxnet.node import converts

__all__ = ["converts", "from_mxnet"]
