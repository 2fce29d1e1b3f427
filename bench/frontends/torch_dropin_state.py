"""Programs of `torch_dropin.py` about all but memory: state, randomness, kinds of tensors, what Dynamo is asked."""

from __future__ import annotations

import contextlib
import copy
import io
import pickle
import threading
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import rnn
from torch.utils.checkpoint import checkpoint
from torch_dropin_way import Program, Way

PROGRAMS: dict[str, Program] = {}


def program(function: Program) -> Program:
    """Enter a program under its name."""
    PROGRAMS[function.__name__] = function
    return function


def net_of(*more: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), *more, nn.Linear(6, 3))


def stepped(way: Way, net: nn.Module, *given: Any) -> Any:
    """Results, gradients and weights after one step of training."""
    run = way.compiled(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    found = run(*given)
    weights = torch.arange(found.numel()).reshape(found.shape) % 5 + 1  # of what is normalized squares are all the same
    (found.square() * weights).mean().backward()
    optimizer.step()
    return found, [one.grad for one in net.parameters()], [*net.state_dict().values()]


@program
def perceptron(way: Way) -> Any:
    return stepped(way, net_of(), way.draw(5, 4))


@program
def images_last(way: Way) -> Any:
    net = nn.Sequential(
        nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 5, 2)
    )
    return stepped(way, net.to(memory_format=torch.channels_last), way.draw(2, 3, 8, 8))


@program
def images_last_inferred(way: Way) -> Any:
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 5, 2))
    net = net.to(memory_format=torch.channels_last).eval()
    with torch.no_grad():
        found = way.compiled(net)(way.draw(2, 3, 8, 8).to(memory_format=torch.channels_last))
    return found, found.permute(0, 2, 3, 1).view(-1, 5)


@program
def autocast_inference(way: Way) -> Any:
    way.short = True
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        return way.compiled(net_of())(way.draw(5, 4))


@program
def autocast_within(way: Way) -> Any:
    net, way.short = net_of(), True

    @way.compiled
    def run(x: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            y = net(x)
        return y.float().sum(), y

    loss, y = run(way.draw(5, 4))
    loss.backward()
    return y, [one.grad for one in net.parameters()]


@program
def autocast_training(way: Way) -> Any:
    way.short = True
    with torch.autocast("cpu", torch.bfloat16):
        return stepped(way, net_of(), way.draw(5, 4))


for _reentrant in (False, True):

    def _checkpointed(way: Way, reentrant: bool = _reentrant) -> Any:
        first, second, x = net_of(), nn.Linear(3, 2), way.draw(5, 4, grad=True)
        found = way.compiled(lambda x: second(checkpoint(first, x, use_reentrant=reentrant)))(x)
        found.sum().backward()
        return found, x.grad, [one.grad for one in first.parameters()]

    PROGRAMS[f"checkpoint, reentrant {_reentrant}"] = _checkpointed


@program
def checkpoint_with_dropout(way: Way) -> Any:
    net, x = net_of(nn.Dropout(0.0)), way.draw(5, 4, grad=True)
    way.compiled(lambda x: checkpoint(net, x, use_reentrant=False))(x).sum().backward()
    return x.grad


@program
def forward_hooks(way: Way) -> Any:
    net, seen = net_of(), []
    net[0].register_forward_hook(lambda module, args, found: found * 2)
    net[1].register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    net.register_forward_hook(lambda module, args, found: seen.append(tuple(found.shape)))
    return way.compiled(net)(way.draw(5, 4)), seen


@program
def gradient_hooks(way: Way) -> Any:
    x, y, seen = way.draw(3, 4, grad=True), way.draw(3, 4), []
    x.register_hook(lambda gradient: seen.append(tuple(gradient.stride())))
    x.register_hook(lambda gradient: gradient * 3)
    (way.compiled(lambda x, y: (x * y).tanh())(x, y)).sum().backward()
    return x.grad, seen


@program
def backward_hooks_of_modules(way: Way) -> Any:
    net, seen = net_of(), []
    net[0].register_full_backward_hook(lambda module, into, out: seen.append(len(out)))
    way.compiled(net)(way.draw(5, 4)).sum().backward()
    return [one.grad for one in net.parameters()], seen


@program
def hooks_of_saved_tensors(way: Way) -> Any:
    x, kept = way.draw(3, 4, grad=True), []

    def pack(one: Any) -> Any:
        kept.append(tuple(one.shape))
        return one

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda one: one):
        found = way.compiled(lambda x: x.sin() * x.t().cos().t())(x)
    found.sum().backward()
    return x.grad


for _kind in ("LSTM", "GRU", "RNN"):

    def _recurrent(way: Way, kind: str = _kind) -> Any:
        net = getattr(nn, kind)(4, 3, num_layers=2, batch_first=True)
        found, state = way.compiled(net)(way.draw(2, 5, 4))
        found.sum().backward()
        return found, state, [one.grad for one in net.parameters()]

    def _recurrent_inferred(way: Way, kind: str = _kind) -> Any:
        net = getattr(nn, kind)(4, 3, batch_first=True, bidirectional=True).eval()
        with torch.no_grad():
            return way.compiled(net)(way.draw(2, 5, 4))

    PROGRAMS[f"recurrent {_kind}"] = _recurrent
    PROGRAMS[f"recurrent {_kind}, both ways"] = _recurrent_inferred


def _packed(way: Way, grad: bool) -> Any:
    net = nn.LSTM(4, 3, batch_first=True)

    @way.compiled
    def run(x: Any, sizes: Any) -> Any:
        packed = rnn.pack_padded_sequence(x, sizes, batch_first=True, enforce_sorted=False)
        found, state = net(packed)
        return rnn.pad_packed_sequence(found, batch_first=True), state

    x = way.draw(3, 5, 4, grad=grad)
    found = run(x, torch.tensor([5, 3, 2]))
    if grad:
        found[0][0].sum().backward()
    return found, x.grad


PROGRAMS["packed sequences"] = lambda way: _packed(way, False)
PROGRAMS["packed sequences, trained"] = lambda way: _packed(way, True)


@program
def padded_sequences(way: Way) -> Any:
    return way.compiled(lambda a, b: rnn.pad_sequence([a, b], batch_first=True))(way.draw(3, 2), way.draw(5, 2))


@program
def sparse_product(way: Way) -> Any:
    sparse = torch.eye(4).to_sparse()
    return way.compiled(lambda a, b: torch.sparse.mm(a, b) + 1)(sparse, way.draw(4, 2))


@program
def sparse_within(way: Way) -> Any:
    return way.compiled(lambda x: (x.relu().to_sparse(), x.relu().to_sparse().to_dense() + 1))(way.draw(3, 4))


@program
def sparse_rows(way: Way) -> Any:
    return way.compiled(lambda x, y: x.to_sparse_csr() @ y)(torch.eye(3), way.draw(3, 2))


@program
def sparse_gradients(way: Way) -> Any:
    table = nn.Embedding(5, 3, sparse=True)
    way.compiled(lambda x: table(x).sum())(torch.tensor([1, 3])).backward()
    return table.weight.grad


_Pair = namedtuple("_Pair", "first second")


@dataclass
class _Box:
    value: torch.Tensor
    name: str


@program
def named_tuples(way: Way) -> Any:
    return way.compiled(lambda p: _Pair(p.first + 1, [p.second * 2]))(_Pair(way.draw(3), way.draw(2)))


@program
def dataclasses_of_tensors(way: Way) -> Any:
    return way.compiled(lambda b: _Box(b.value * 2, b.name + "!"))(_Box(way.draw(3), "it"))


@program
def ordered_dicts(way: Way) -> Any:
    return way.compiled(lambda d: OrderedDict((key, one + 1) for key, one in reversed(d.items())))(
        OrderedDict(a=way.draw(2), b=way.draw(3))
    )


@program
def lists_that_change(way: Way) -> Any:
    kept: list[Any] = [way.draw(3)]

    @way.compiled
    def run(x: Any, into: list[Any]) -> Any:
        into.append(x + 1)
        into[0] = x * 2
        return len(into), into.pop()

    return run(way.draw(3), kept), kept


@program
def dicts_that_change(way: Way) -> Any:
    kept: dict[str, Any] = {}

    @way.compiled
    def run(x: Any) -> Any:
        kept["x"] = x + 1
        kept["t"] = kept["x"].t()
        return x * 2

    return run(way.draw(3, 2)), kept


@program
def attributes_that_change(way: Way) -> Any:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(3))
            self.steps = 0

        def forward(self, x: Any) -> Any:
            self.total += x
            self.steps += 1
            return self.total * 2

    net = Counting()
    run = way.compiled(net)
    return [run(way.draw(3)) for _ in range(3)], net.total, net.steps


def _sizes(way: Way, grad: bool, **options: Any) -> Any:
    run = way.compiled(lambda x: (x.t() @ x, x[1:].t(), x.reshape(-1) * x.shape[0]), **options)
    found = []
    for rows in (3, 5, 4, 1):
        x = way.draw(rows, 4, grad=grad)
        results = run(x)
        if grad:
            sum(one.sum() for one in results).backward()
        found.append((results, x.grad))
    return found


PROGRAMS["sizes found to change"] = lambda way: _sizes(way, False)
PROGRAMS["sizes open"] = lambda way: _sizes(way, False, dynamic=True)
PROGRAMS["sizes fixed"] = lambda way: _sizes(way, False, dynamic=False)
PROGRAMS["sizes open, trained"] = lambda way: _sizes(way, True, dynamic=True)
PROGRAMS["whole graph"] = lambda way: _sizes(way, False, fullgraph=True)


@program
def marked_sizes(way: Way) -> Any:
    run, found = way.compiled(lambda x: (x.softmax(0), x.permute(1, 0) * 2, x.sum(1)), fullgraph=True), []
    for rows in (3, 6):
        x = way.draw(rows, 4)
        torch._dynamo.mark_dynamic(x, 0)
        found.append(run(x))
    return found


@program
def images_of_any_size_last(way: Way) -> Any:
    net = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    run, found = way.compiled(net, dynamic=True), []
    with torch.no_grad():
        for side in (6, 9):
            found.append(run(way.draw(2, 3, side, side + 1).to(memory_format=torch.channels_last)))
    return found


@program
def sizes_of_values(way: Way) -> Any:
    return way.compiled(lambda x: (x[x > 0].numel(), x[x > 0].sum(), torch.nonzero(x > 0)))(way.draw(3, 4))


@program
def numbers_that_change(way: Way) -> Any:
    run = way.compiled(lambda x, scale, times: (x * scale, x.repeat(times), times + 1))
    return [run(way.draw(3), scale, times) for scale, times in ((0.5, 2), (1.5, 3), (2.0, 4))]


@program
def whole_graph_with_a_break(way: Way) -> Any:
    def run(x: Any) -> Any:
        torch._dynamo.graph_break()
        return x + 1

    try:
        return way.compiled(run, fullgraph=True)(way.draw(3))
    except torch._dynamo.exc.Unsupported:
        return "refused" if way.backend else None


@program
def graph_breaks(way: Way) -> Any:
    def run(x: Any) -> Any:
        y = x.t() + 1
        torch._dynamo.graph_break()
        return y.relu(), y

    return way.compiled(run)(way.draw(3, 4))


@program
def prints(way: Way) -> Any:
    def run(x: Any) -> Any:
        y = x + 1
        with contextlib.redirect_stdout(io.StringIO()):
            print(y.shape)
        return y * 2

    return way.compiled(run)(way.draw(3))


@program
def branches_on_values(way: Way) -> Any:
    run = way.compiled(lambda x: x.sin() if x.sum() > 0 else x.cos().t())
    return run(torch.ones(2, 3)), run(-torch.ones(2, 3))


@program
def dropout_off(way: Way) -> Any:
    return way.compiled(nn.Dropout(0.5).eval())(way.draw(3, 4))


@program
def dropout_shapes(way: Way) -> Any:
    found = way.compiled(lambda x: F.dropout(x.t(), 0.5))(way.draw(30, 40))
    return tuple(found.shape), found.stride(), bool(((found == 0).float().mean() - 0.5).abs() < 0.1)


@program
def dropout_of_everything(way: Way) -> Any:
    x = way.draw(3, 4, grad=True)
    found = way.compiled(lambda x: F.dropout(x, 1.0))(x)
    found.sum().backward()
    return found, x.grad


@program
def random_numbers(way: Way) -> Any:
    run = way.compiled(lambda: (torch.rand(3, 4).t(), torch.randn(5), torch.randint(0, 5, (3,))))
    return [(one.shape, one.stride(), str(one.dtype)) for one in run()]


@program
def random_numbers_by_seed(way: Way) -> Any:
    run = way.compiled(lambda: torch.rand(8))
    torch.manual_seed(3)
    first = run()
    torch.manual_seed(3)
    return bool((run() == first).all())


@program
def quantized_dynamically(way: Way) -> Any:
    net = torch.ao.quantization.quantize_dynamic(net_of().eval(), {nn.Linear}, torch.qint8)
    with torch.no_grad():
        return way.compiled(net)(way.draw(5, 4))


@program
def quantized_tensors(way: Way) -> Any:
    return way.compiled(lambda x: torch.quantize_per_tensor(x, 0.1, 3, torch.quint8))(way.draw(3, 4))


@program
def fake_quantized(way: Way) -> Any:
    x = way.draw(3, 4, grad=True)
    found = way.compiled(lambda x: torch.fake_quantize_per_tensor_affine(x.t(), 0.1, 0, -128, 127))(x)
    found.sum().backward()
    return found, x.grad


@program
def copied_after(way: Way) -> Any:
    net = way.compiled(net_of().eval())
    with torch.no_grad():
        x = way.draw(5, 4)
        return net(x), copy.deepcopy(net)(x)


@program
def pickled_after(way: Way) -> Any:
    net, x = net_of().eval(), way.draw(5, 4)
    run = way.compiled(net)
    with torch.no_grad():
        return run(x), pickle.loads(pickle.dumps(net))(x), sorted(net.state_dict())


@program
def saved_after(way: Way) -> Any:
    net, x, other = net_of(), way.draw(5, 4), net_of()
    way.compiled(net)(x).sum().backward()
    other.load_state_dict(net.state_dict())
    return way.compiled(other)(x)


@program
def threads(way: Way) -> Any:
    net, found = net_of().eval(), {}
    run, xs = way.compiled(net), [way.draw(5, 4) for _ in range(4)]

    def work(index: int) -> None:
        with torch.no_grad():
            for _ in range(3):
                found[index] = run(xs[index])

    workers = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    return [found[index] for index in range(4)]


@program
def weights_written_between(way: Way) -> Any:
    net, x = net_of().eval(), way.draw(5, 4)
    run, found = way.compiled(net), []
    with torch.no_grad():
        for _ in range(3):
            found.append(run(x))
            net[0].weight.mul_(1.5)
            net[2].bias.copy_(torch.ones(3))
    return found


@program
def inference_mode(way: Way) -> Any:
    with torch.inference_mode():
        return way.compiled(net_of().eval())(way.draw(5, 4))


@program
def inference_mode_views(way: Way) -> Any:
    with torch.inference_mode():
        return way.compiled(lambda x: (y := x * 2, y.t(), x[0]))(way.draw(5, 4))


@program
def modes_of_gradients(way: Way) -> Any:
    run, x = way.compiled(lambda x: (x * 2).t()), way.draw(3, 4, grad=True)
    with torch.no_grad():
        first = run(x)
    second = run(x)
    with torch.inference_mode():
        third = run(x)
    return first, second, third


@program
def no_grad_within(way: Way) -> Any:
    def run(x: Any) -> Any:
        with torch.no_grad():
            y = x * 2
        return y, x * y, torch.is_grad_enabled()

    return way.compiled(run)(way.draw(3, grad=True))
