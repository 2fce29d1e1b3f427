"""Caffe2 models to Relay: two NetDefs, one converter function an operator."""

from tilewright.frontend.caffe2.convert import from_caffe2
from tilewright.frontend.caffe2.operators import converts

__all__ = ["converts", "from_caffe2"]
