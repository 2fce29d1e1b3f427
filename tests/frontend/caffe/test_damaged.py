"""Damaged prototxt and caffemodel files give one error or a network."""

from __future__ import annotations

import numpy as np

from tests.frontend.caffe.builder import caffemodel, layer, net
from tests.frontend.running import mutations, refused
from tilewright.frontend.caffe import from_caffe

TEXT = net(
    layer("Convolution", "c", more="convolution_param { num_output: 6 kernel_size: 3 pad: 1 stride: 2 }"),
    layer("BatchNorm", "b", ("c",)),
    layer("Pooling", "p", ("b",), more="pooling_param { pool: AVE kernel_size: 3 stride: 2 }"),
    layer("Reshape", "r", ("p",), more="reshape_param { shape { dim: 0 dim: 3 dim: -1 } }"),
    layer("InnerProduct", "f", ("r",), more="inner_product_param { num_output: 5 }"),
    layer("Softmax", "s", ("f",)),
    data=(1, 3, 9, 9),
).encode()
rng = np.random.default_rng(0)
DATA = caffemodel(
    {
        "c": [rng.standard_normal((6, 3, 3, 3)), rng.standard_normal(6)],
        "b": [rng.standard_normal(6), rng.uniform(1, 2, 6), [1.0]],
        "f": [rng.standard_normal((5, 24)), rng.standard_normal(5)],
    }
)


def test_mutated_prototxt_files() -> None:
    from_caffe(TEXT, DATA)
    assert refused(lambda contents: from_caffe(contents, DATA), mutations(TEXT, 400)) > 200


def test_mutated_caffemodel_files() -> None:
    assert refused(lambda contents: from_caffe(TEXT, contents), mutations(DATA, 200)) > 100
