"""Steps of training by JAX: the graph that PyTorch exports of a loss, its operators computed by `jax.numpy`.

A step is `jax.jit(jax.value_and_grad(loss))`, in a process of its own that is bound to as many processors as there are
threads: XLA starts a thread for each processor that its process may use, once and for all.
Images keep PyTorch's layout; XLA chooses that of its convolutions. Needs torch and jax.
"""

from __future__ import annotations

import io
import math
import multiprocessing
import os
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.fx.node import map_arg
from torch.nn import functional as F


class _Loss(nn.Module):
    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Any, y: Any) -> Any:
        return F.cross_entropy(self.module(x), y)


def exported(module: nn.Module, x: Any, y: Any) -> bytes:
    """The program of the cross entropy of `module`, in training, for batches like `x` and `y`; with its weights."""
    file = io.BytesIO()
    torch.export.save(torch.export.export(_Loss(module).train(), (x, y)), file)
    return file.getvalue()


class JaxStep:
    """Steps of `module` by JAX in a process of its own, with as many processors as `threads`."""

    def __init__(self, module: nn.Module, batch: tuple[Any, Any], threads: int, rate: float) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        work = (other, exported(module, *batch), threads, rate)
        context.Process(target=_serve, args=work, daemon=True).start()
        other.close()
        self.seconds = (math.nan, math.nan)

    def __call__(self, x: Any, y: Any) -> float:
        """Forward and backward; the loss. Then `seconds` has what it took there, and the processor time of it."""
        self._pipe.send((x.numpy(), y.numpy()))
        loss, self.seconds = self._pipe.recv()
        return float(loss)

    def gradients(self) -> dict[str, Any]:
        """The gradients of the last step by the parameters' names."""
        self._pipe.send("gradients")
        return {name.removeprefix("module."): torch.from_numpy(value) for name, value in self._pipe.recv().items()}

    def update(self) -> None:
        """Everything that is not timed."""
        self._pipe.send("update")
        self._pipe.recv()


def _serve(pipe: Connection, program: bytes, threads: int, rate: float) -> None:
    """Compute the steps that come, until the other end is closed."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    if threads == 1:
        os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    import jax

    loaded = torch.export.load(io.BytesIO(program))
    weights = {name: jax.numpy.asarray(value.detach().numpy()) for name, value in loaded.state_dict.items()}
    buffers = {name: weights.pop(name) for name in loaded.graph_signature.buffers}
    run = jax.jit(jax.value_and_grad(loss_of(loaded), has_aux=True))
    move = jax.jit(lambda old, by: {name: old[name] - rate * by[name] for name in old})
    gradients: Mapping[str, Any] = {}
    while True:
        try:
            asked = pipe.recv()
        except EOFError:
            return
        if asked == "gradients":
            pipe.send({name: np.array(value) for name, value in gradients.items()})
        elif asked == "update":
            weights = jax.block_until_ready(move(weights, gradients))
            pipe.send(None)
        else:
            batch = jax.block_until_ready(jax.device_put(asked))
            begun, before = time.perf_counter(), time.process_time()
            (loss, buffers), gradients = jax.block_until_ready(run(weights, buffers, *batch))
            pipe.send((float(loss), (time.perf_counter() - begun, time.process_time() - before)))


def loss_of(program: Any) -> Callable[..., Any]:
    """The loss of an exported program: a function of parameters, buffers, `x` and `y` -> (loss, new buffers)."""
    operators, signature = _operators(), program.graph_signature
    held = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}

    def loss(parameters: Mapping[str, Any], buffers: Mapping[str, Any], x: Any, y: Any) -> Any:
        state, batch = {**parameters, **buffers}, iter((x, y))
        known: dict[Any, Any] = {}
        for node in program.graph.nodes:
            if node.op == "placeholder":
                known[node] = state[held[node.name]] if node.name in held else next(batch)
            elif node.op == "call_function":
                args = map_arg(node.args, known.__getitem__)
                name = getattr(node.target, "__name__", "").split(".")[0]
                if name not in operators:
                    raise NotImplementedError(f"the step by JAX has no {node.target}")
                known[node] = operators[name](*args)
                if name == "batch_norm":
                    known[node], known[node.args[3]], known[node.args[4]] = known[node]
                elif name.endswith("_"):
                    known[node.args[0]] = known[node]
        (result,) = (node for node in program.graph.nodes if node.op == "output")
        placed = {held.get(node.name): value for node, value in known.items() if node.op == "placeholder"}
        return known[result.args[0][-1]], {name: placed[name] for name in buffers}

    return loss


def _operators() -> dict[str, Callable[..., Any]]:
    """The operators of ATen by their names, of JAX's arrays."""
    import jax
    from jax import lax
    from jax import numpy as jnp

    def conv2d(x: Any, w: Any, b: Any = None, stride: Any = (1, 1), pad: Any = (0, 0), dilation: Any = (1, 1),
               groups: int = 1) -> Any:  # fmt: skip
        made = lax.conv_general_dilated(
            x, w, stride, [(p, p) for p in pad], rhs_dilation=dilation, feature_group_count=groups
        )
        return made if b is None else made + b[:, None, None]

    def batch_norm(
        x: Any, w: Any, b: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float, _: Any
    ) -> Any:
        assert training
        axes, count = (0, *range(2, x.ndim)), x.size // x.shape[1]
        spread = lambda v: v.reshape(-1, *[1] * (x.ndim - 2))  # noqa: E731
        now, square = x.mean(axes), x.var(axes)
        made = (x - spread(now)) * spread(w * lax.rsqrt(square + eps)) + spread(b)
        moved = (
            (1 - momentum) * old + momentum * new for old, new in ((mean, now), (var, square * count / (count - 1)))
        )
        return made, *moved

    def max_pool2d(x: Any, size: Any, stride: Any, pad: Any = (0, 0)) -> Any:
        pads = [(0, 0), (0, 0), *((p, p) for p in pad)]
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, *size), (1, 1, *stride), pads)

    def adaptive_avg_pool2d(x: Any, size: Any) -> Any:
        assert list(size) == [1, 1]
        return x.mean((2, 3), keepdims=True)

    def flatten(x: Any, first: int = 0, last: int = -1) -> Any:
        return x.reshape(*x.shape[:first], -1, *x.shape[last % x.ndim + 1 :])

    def layer_norm(x: Any, shape: Any, w: Any, b: Any, eps: float, _: Any) -> Any:
        axes = tuple(range(-len(shape), 0))
        return (x - x.mean(axes, keepdims=True)) * lax.rsqrt(x.var(axes, keepdims=True) + eps) * w + b

    def attention(q: Any, k: Any, v: Any, mask: Any = None, dropout: float = 0.0, causal: bool = False) -> Any:
        assert mask is None and dropout == 0.0
        scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
        if causal:
            scores = jnp.where(jnp.tri(*scores.shape[-2:], dtype=bool), scores, -jnp.inf)
        return jax.nn.softmax(scores) @ v

    def cross_entropy(x: Any, y: Any) -> Any:
        return -jnp.take_along_axis(jax.nn.log_softmax(x), y[:, None], 1).mean()

    def linear(x: Any, w: Any, b: Any = None) -> Any:
        return x @ w.T if b is None else x @ w.T + b

    return {
        "conv2d": conv2d, "batch_norm": batch_norm, "max_pool2d": max_pool2d, "flatten": flatten, "linear": linear,
        "adaptive_avg_pool2d": adaptive_avg_pool2d, "layer_norm": layer_norm, "cross_entropy_loss": cross_entropy,
        "scaled_dot_product_attention": attention, "embedding": lambda table, index: table[index],
        "relu": jax.nn.relu, "hardtanh": jnp.clip, "gelu": lambda x: jax.nn.gelu(x, approximate=False),
        "sigmoid": jax.nn.sigmoid, "tanh": jnp.tanh, "add": jnp.add, "add_": jnp.add, "mul": jnp.multiply,
        "view": jnp.reshape, "reshape": jnp.reshape, "permute": jnp.transpose, "transpose": jnp.swapaxes,
        "unbind": lambda x: list(x), "chunk": jnp.split, "getitem": lambda some, index: some[index],
        "select": lambda x, axis, index: lax.index_in_dim(x, index, axis, keepdims=False),
        "expand": lambda x, shape: jnp.broadcast_to(x, [have if n < 0 else n for n, have in zip(shape, x.shape)]),
        "cat": jnp.concatenate, "zeros": jnp.zeros,
    }  # fmt: skip
