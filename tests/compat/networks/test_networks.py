"""The networks of `relay.testing`: as many weights as published, compiled equal to interpreted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright import relay
from tilewright.compat.networks import dcgan, densenet, dqn, lstm, mlp, mobilenet, resnet, squeezenet, synthetic, vgg
from tilewright.compat.networks.workload import create_workload
from tilewright.compat.relay.executor import GraphModule, build
from tilewright.errors import InputError

#: Small enough for the interpreter.
SMALL = {
    "mlp": lambda: mlp.get_workload(2, 10, (1, 8, 8)),
    "resnet": lambda: resnet.get_workload(1, 10, 18, (3, 32, 32)),
    "dqn": lambda: dqn.get_workload(1, 18, (4, 44, 44)),
    "dcgan": lambda: dcgan.get_workload(1, (3, 64, 64), ngf=4, random_len=10),
    "lstm": lambda: lstm.get_workload(3, 8),
    "squeezenet": lambda: squeezenet.get_workload(1, 10, "1.1", (3, 48, 48)),
    "synthetic": synthetic.get_workload,
}

#: Trainable and running parameters of each network as its paper, or torchvision with the same layers, has them.
COUNTS = {
    "mobilenet": (lambda: mobilenet.get_net(), 4_231_976),
    "squeezenet": (lambda: squeezenet.get_net(1, (3, 224, 224), 1000), 1_235_496),
    "vgg11": (lambda: vgg.get_net(1, (3, 224, 224), 1000), 132_863_336),
    "densenet121": (lambda: densenet.get_net(1, 1000, (3, 224, 224), "float32", *densenet.SPECS[121]), 7_978_856),
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.long) if n == "resnet" else n for n in SMALL])
@pytest.mark.sample(3)
def test_compiled_networks_agree_with_the_interpreter(name: str) -> None:
    mod, params = SMALL[name]()
    (data,) = [param for param in mod["main"].params if param.name not in params]
    rng = np.random.default_rng(0)
    x = rng.standard_normal(data.checked_type.shape).astype("float32")
    values = {data.name: x, **{key: value.numpy() for key, value in params.items()}}
    (expected,) = relay.interpret(mod, values)
    module = GraphModule(build(mod, "llvm", params=params)["default"]())
    module.run(**{data.name: x})
    np.testing.assert_allclose(module.get_output(0).numpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", COUNTS)
def test_networks_have_as_many_weights_as_published(name: str) -> None:
    from tilewright.compat.relay.testing import infer_module

    net, count = COUNTS[name]
    main = infer_module(net())["main"]
    found = 0
    for param in main.params:
        type_: Any = param.checked_type
        statistics = param.name.endswith(("_mean", "_var"))
        found += 0 if param.name == "data" or statistics else type_.size
    assert found == count


def test_other_depths_and_layouts_are_refused() -> None:
    with pytest.raises(InputError, match="no resnet of 19 layers; there are: 18, 34"):
        resnet.get_workload(num_layers=19)
    with pytest.raises(InputError, match="no VGG of 12 layers"):
        vgg.get_workload(1, num_layers=12)
    with pytest.raises(InputError, match=r"no SqueezeNet 2\.0"):
        squeezenet.get_workload(version="2.0")
    with pytest.raises(InputError, match="layouts NCHW and NHWC, not in HWCN"):
        mobilenet.get_workload(layout="HWCN")


@pytest.mark.parametrize("net", ["mobilenet", "resnet"])
def test_networks_in_both_layouts_compute_the_same(net: str) -> None:
    def made(shape: tuple[int, ...], layout: str) -> tuple[Any, Any]:
        if net == "mobilenet":
            return create_workload(mobilenet.get_net(10, (1, *shape), alpha=0.125, layout=layout))
        return create_workload(resnet.get_net(1, 10, 18, shape, layout=layout))

    first, values = made((3, 32, 32), "NCHW")
    second, like = made((32, 32, 3), "NHWC")
    moved = {}
    for name, value in values.items():
        array = value.numpy()
        if array.ndim == 4:
            array = array.transpose((2, 3, 0, 1) if "depthwise" in name else (2, 3, 1, 0))
        assert array.shape == like[name].shape
        moved[name] = array
    x = np.random.default_rng(3).random((1, 3, 32, 32), np.float32)
    results = []
    for mod, given, image in ((first, values, x), (second, moved, x.transpose(0, 2, 3, 1))):
        args = [image if p.name == "data" else np.asarray(given[p.name]) for p in mod["main"].params]
        results.append(relay.evaluate(mod, args))
    np.testing.assert_allclose(results[0], results[1], rtol=1e-4, atol=1e-6)
