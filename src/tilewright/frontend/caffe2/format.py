"""Caffe2 among the formats: a predict net with its init net beside it, or a pair of both."""

from tilewright.frontend.caffe2 import converts, from_caffe2
from tilewright.frontend.caffe2.load import init_beside, is_net
from tilewright.frontend.two_files import PairFrontend

CAFFE2 = PairFrontend(
    "caffe2", "a Caffe2 net", "a tuple of a Caffe2 predict net and its init net", is_net, from_caffe2, init_beside,
    {"operators": converts},
)  # fmt: skip
