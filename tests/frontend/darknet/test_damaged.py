"""Damaged cfg and weights files give one error or a network."""

from __future__ import annotations

import numpy as np

from tests.frontend.darknet.builder import NET, conv_weights, packed
from tests.frontend.running import mutations, refused
from tilewright.frontend.darknet import from_darknet

LAYERS = (
    "[convolutional]\nbatch_normalize=1\nfilters=18\nsize=3\nstride=2\npad=1\nactivation=leaky\n"
    "[maxpool]\nsize=2\nstride=1\n[route]\nlayers=-1,-2\n[convolutional]\nfilters=18\nsize=1\nactivation=linear\n"
    "[shortcut]\nfrom=-3\nactivation=mish\n[upsample]\nstride=2\n"
    "[yolo]\nmask=1,2\nanchors=10,14, 23,27, 37,58\nnum=3\nclasses=4\n"
)


def test_mutated_cfg_files() -> None:
    rng = np.random.default_rng(0)
    data = packed(*conv_weights(rng, 18, 3, 3, True), *conv_weights(rng, 18, 36, 1))
    cfg = (NET.format(16, 16, 3) + LAYERS).encode()
    from_darknet(cfg, data)
    assert refused(lambda contents: from_darknet(contents, data), mutations(cfg, 400)) > 200


def test_mutated_weights_files() -> None:
    rng = np.random.default_rng(0)
    data = packed(*conv_weights(rng, 18, 3, 3, True), *conv_weights(rng, 18, 36, 1))
    cfg = (NET.format(16, 16, 3) + LAYERS).encode()
    assert refused(lambda contents: from_darknet(cfg, contents), mutations(data, 200)) > 80
