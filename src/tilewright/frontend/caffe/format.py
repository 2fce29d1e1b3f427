"""Caffe among the formats: a prototxt with its caffemodel beside it, a pair of both, or a caffemodel alone."""

from tilewright.frontend.caffe import converts, from_caffe
from tilewright.frontend.caffe.load import is_network, weights_beside
from tilewright.frontend.two_files import PairFrontend

CAFFE = PairFrontend(
    "caffe", "a Caffe prototxt or caffemodel", "a tuple of a Caffe prototxt and its caffemodel", is_network, from_caffe,
    weights_beside, {"layers": converts},
)  # fmt: skip
