"""Caffe networks to Relay: a prototxt and its caffemodel, one converter function a type of layer."""

from tilewright.frontend.caffe.convert import from_caffe
from tilewright.frontend.caffe.node import converts

__all__ = ["converts", "from_caffe"]
