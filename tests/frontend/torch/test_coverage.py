"""Reports of parts that are not compiled: one warning, the report of coverage, strict=True."""

from __future__ import annotations

import logging
import threading
import warnings
from typing import Any

import pytest

from tilewright import torch_backend, torch_report
from tilewright.errors import UnsupportedError
from tilewright.torch_backend import FallbackWarning, tilewright

torch = pytest.importorskip("torch", reason="needs the torch package")


@pytest.fixture(autouse=True)
def fresh() -> Any:
    torch._dynamo.reset()
    torch_report(reset=True)


def unsupported(x: Any) -> Any:
    return torch.igamma(x.abs(), x.abs())


def told(call: Any) -> tuple[Any, list[str]]:
    """The result of a call and the fallbacks that it warned of."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        result = call()
    return result, [str(one.message) for one in found if issubclass(one.category, FallbackWarning)]


def packed(net: Any) -> Any:
    def run(x: Any, sizes: Any) -> Any:
        given = torch.nn.utils.rnn.pack_padded_sequence(x, sizes, batch_first=True)
        return torch.nn.utils.rnn.pad_packed_sequence(net(given)[0], batch_first=True)[0]

    return run


def test_complex_numbers_of_parts() -> None:
    x, y = torch.randn(2, 3, 4, requires_grad=True).unbind(0)
    for function in (torch.complex, torch.polar):
        found, left = told(lambda: torch.compile(lambda a, b: function(a, b) * 2, backend=tilewright)(x, y))  # noqa: B023
        assert not left
        torch.testing.assert_close(found, function(x, y) * 2)
        gradients = [torch.autograd.grad(one.real.square().sum(), (x, y)) for one in (found, function(x, y) * 2)]
        torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


def test_a_decomposition_that_aot_autograd_refuses(monkeypatch: Any) -> None:
    def written(x: Any, *_args: Any, **_options: Any) -> Any:
        raise AssertionError("not functional")

    monkeypatch.setattr(torch_backend, "without_converter", lambda: {torch.ops.aten.sin.default: written})
    x = torch.randn(3, requires_grad=True)
    found, left = told(lambda: torch.compile(lambda x: x.sin() + 1, backend=tilewright)(x))
    assert len(left) == 1 and "AssertionError: not functional" in left[0]
    torch.testing.assert_close(found, x.sin() + 1)
    with pytest.raises(UnsupportedError, match=r"strict=True: .*not functional"):
        torch.compile(lambda x: x.sin() + 2, backend=tilewright, options={"strict": True})(x)


@pytest.mark.parametrize("part", ["forward", "backward"])
def test_a_fault_while_a_graph_is_compiled(monkeypatch: Any, part: str) -> None:
    compile_model = torch_backend.compile_model
    calls = []

    def broken(*args: Any, **options: Any) -> Any:
        calls.append(part)
        if len(calls) == (1 if part == "forward" else 2):
            raise AssertionError("a fault")
        return compile_model(*args, **options)

    monkeypatch.setattr(torch_backend, "compile_model", broken)
    x = torch.randn(3, 4, requires_grad=True)

    def step() -> Any:
        return torch.autograd.grad(torch.compile(lambda x: x.t().sin() * 2, backend=tilewright)(x).sum(), x)[0]

    found, left = told(step)
    torch.testing.assert_close(found, 2 * x.cos())
    assert len(left) == 1 and "AssertionError: a fault" in left[0]
    assert [graph.kind for graph in torch_report().left] == [part]


def test_a_call_that_fails(monkeypatch: Any) -> None:
    compile_model, good = torch_backend.compile_model, []

    class Model:
        def __init__(self, *args: Any, **options: Any) -> None:
            self._model = compile_model(*args, **options)
            self.outputs = self._model.outputs

        def __call__(self, *args: Any) -> Any:
            if not good:
                raise ValueError("not this time")
            return self._model(*args)

    monkeypatch.setattr(torch_backend, "compile_model", Model)
    compiled, x = torch.compile(lambda x: x + 1, backend=tilewright), torch.randn(3)
    found, left = told(lambda: [compiled(x), compiled(x)])
    assert all(torch.equal(one, x + 1) for one in found)
    assert len(left) == 1 and "a call of a graph runs in PyTorch" in left[0]
    good.append(True)
    assert told(lambda: compiled(x))[1] == [] and torch_report().graphs[0].left_calls == 2
    good.clear()
    for _ in range(torch_backend._MOST_FAILURES):
        told(lambda: compiled(x))
    assert torch_report().graphs[0].state == "left"


def test_errors_of_the_program_are_its_own() -> None:
    def first_of(x: Any) -> Any:
        return torch.linalg.cholesky(torch.igamma(x.abs(), x.abs()) * 0 - 1)

    x = torch.rand(2, 2) + 1
    with pytest.raises(torch.linalg.LinAlgError):
        torch.compile(first_of, backend=tilewright)(x)


def test_the_report_counts_graphs_and_fallbacks(caplog: Any) -> None:
    def run(x: Any) -> Any:
        y = x + 1
        torch._dynamo.graph_break()
        return unsupported(y) * 2

    with caplog.at_level(logging.INFO, "tilewright"):
        _, left = told(lambda: torch.compile(run, backend=tilewright)(torch.randn(3)))
    report = torch_report(reset=True)
    assert len(left) == 1 and (len(report.graphs), report.compiled, len(report.left)) == (2, 1, 1)
    assert "igamma" in report.left[0].reason and report.left_operators >= 2 and sum(report.breaks.values()) == 1
    assert "2 graphs" in str(report) and "igamma" in str(report) and "1 times by PyTorch" in str(report)
    assert any("is compiled" in line for line in caplog.messages) and any("igamma" in line for line in caplog.messages)
    assert not torch_report().graphs and torch_report().nothing_compiled


def test_nothing_of_a_program_was_compiled() -> None:
    run, given = packed(torch.nn.LSTM(4, 3, batch_first=True)), (torch.randn(2, 5, 4), torch.tensor([5, 3]))
    torch.testing.assert_close(torch.compile(run, backend=tilewright)(*given), run(*given))
    assert str(torch_report()).startswith("Nothing of this program was compiled.") and torch_report().empty
    strict = torch.compile(run, backend=tilewright, options={"strict": True})
    torch._dynamo.reset()
    for _ in range(2):
        with pytest.raises(UnsupportedError, match=r"nothing of this program was compiled.*pack_padded_sequence"):
            strict(*given)
    again = torch.compile(packed(torch.nn.LSTM(4, 3, batch_first=True)), backend=tilewright, options={"strict": True})
    try:
        raise KeyError("handled while the program is called")
    except KeyError:
        with pytest.raises(UnsupportedError, match="nothing of this program was compiled"):
            again(*given)  # of which PyTorch remembers that it made nothing of its code


def test_strict_programs_fail_instead_of_falling_back() -> None:
    x, strict = torch.randn(3), {"strict": True}
    torch.testing.assert_close(torch.compile(lambda x: x + 1, backend=tilewright, options=strict)(x), x + 1)
    for whole in (False, True):
        torch._dynamo.reset()
        run = torch.compile(unsupported, backend=tilewright, options=strict, fullgraph=whole)
        for _ in range(2):
            with pytest.raises(UnsupportedError, match=r"strict=True[\s\S]*igamma"):
                run(x)

    def own(x: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        torch.compile(own, backend=tilewright, options=strict)(x)


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_modes_are_ignored_with_a_warning(mode: str) -> None:
    x = torch.randn(3)
    with pytest.warns(UserWarning, match=f"mode='{mode}'.* is ignored"):
        torch.testing.assert_close(torch.compile(lambda x: x + 1, backend=tilewright, mode=mode)(x), x + 1)


def test_operators_of_lists_with_a_factor() -> None:
    xs = [torch.randn(2), torch.randn(3)]
    run = torch.compile(lambda xs: torch._foreach_addcmul(xs, xs, xs, 0.5), backend=tilewright)
    found, left = told(lambda: run(xs))
    assert not left
    torch.testing.assert_close(found, torch._foreach_addcmul(xs, xs, xs, 0.5))


def test_threads_beside_changing_weights() -> None:
    net, x, wrong = torch.nn.Linear(4, 3).eval(), torch.randn(5, 4), []
    run = torch.compile(net, backend=tilewright)

    def work() -> None:
        with torch.no_grad():
            for _ in range(20):
                wrong.append(not torch.allclose(run(x), net(x), atol=1e-5))

    for _ in range(2):
        workers = [threading.Thread(target=work) for _ in range(4)]
        for one in workers:
            one.start()
        for one in workers:
            one.join()
        with torch.no_grad():
            net.weight.mul_(2)
    assert len(wrong) == 160 and not any(wrong)
