"""Complex tensors of exported programs, which become pairs of real ones, against eager PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.errors import UnsupportedError
from tilewright.frontend.torch import from_pytorch
from tilewright.relay.interpreter.interpreter import interpret
from tilewright.relay.ir.expr import Constant
from tilewright.relay.ir.visitor import post_order

torch = pytest.importorskip("torch", reason="needs the torch package")


class Call(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: Any) -> Any:
        return self.function(*tensors)


def plain(tensor: Any) -> Any:
    tensor = tensor.detach().resolve_conj().resolve_neg()
    return (torch.view_as_real(tensor) if tensor.is_complex() else tensor).contiguous().numpy()


X = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))
Z = torch.randn(3, 4, dtype=torch.complex64, generator=torch.Generator().manual_seed(1))
WINDOW = torch.hann_window(16)

CASES = {
    "half of the lines": (torch.fft.rfft, X),
    "of complex signals": (torch.fft.fft, Z),
    "a planned inverse": (lambda z: torch.fft.ifft2(z, norm="ortho"), Z),
    "there and back": (lambda x: torch.fft.irfftn(torch.fft.rfftn(x) * 2, (3, 8)), X),
    "hermitian": (lambda x: torch.fft.hfft(torch.fft.ihfft(x)), X),
    "hermitian in two axes": (lambda x: (torch.fft.hfft2(x), torch.fft.ihfft2(x), torch.fft.ihfftn(x, (4,))), X),
    "padded": (lambda x: torch.fft.rfft(x, 11), X),
    "stft": (lambda x: torch.stft(x, 16, 4, window=WINDOW, return_complex=True), X.reshape(1, 24)),
    "a rotary embedding": (
        lambda x: torch.view_as_real(torch.view_as_complex(x.view(3, 4, 2)) * torch.polar(torch.ones(4), x[0, :4])), X,
    ),
    "numbers": (lambda z: (z * 2j + 1) / (z - 3) - 1j / z, Z),
    "products": (lambda z: (z @ z.mH, torch.einsum("ij,kj->ik", z, z), torch.vdot(z[0], z[1])), Z),
    "addmm": (lambda z: torch.addmm(z[:, :3], z, z.T, beta=0.5, alpha=2.0), Z),
    "parts": (lambda z: (z.real, z.imag, z.abs(), z.angle(), z.conj().imag), Z),
    "functions": (
        lambda z: (z.exp(), z.log(), z.sqrt(), z.rsqrt(), z.sin(), z.cos(), z.tanh(), z.tan(), z.sigmoid(), z.sgn()), Z,
    ),
    "powers": (lambda z: (z**2, z**-1, z**1.5, z**z, 2**z, z.square()), Z),
    "shapes": (lambda z: (torch.cat([z, z * 2], 1), z.T.flip(0), z[1:, ::2], torch.stack([z, z.conj()]), z.sum(0)), Z),
    "choices": (lambda z: (torch.where(z.real > 0, z, 0), z.masked_fill(z.imag > 0, 1j), z == z.real, z != z), Z),
    "types": (lambda x: (x.to(torch.complex128), x.to(torch.complex64) + x, torch.zeros(2, dtype=torch.complex64)), X),
    "norms": (lambda z: (z.norm(), torch.linalg.vector_norm(z, 3, 1)), Z),
    "writes": (lambda z: z.clone().index_put_((torch.tensor([0, 2]),), z[0]).mul_(2), Z),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_complex_programs_agree_with_eager_mode(name: str) -> None:
    function, given = CASES[name]
    expected = function(given)
    expected = expected if isinstance(expected, tuple) else (expected,)
    module, _ = from_pytorch(torch.export.export(Call(function), (given,)))
    found = interpret(module, [plain(given)])
    assert len(found) == len(expected)
    for value, right in zip(found, expected, strict=True):
        assert value.shape == plain(right).shape and value.dtype == plain(right).dtype
        np.testing.assert_allclose(value, plain(right), 1e-4, 1e-5)


def test_long_signals_are_split() -> None:
    x = torch.randn(2, 2080, generator=torch.Generator().manual_seed(2))
    function = Call(lambda x: (torch.fft.rfft(x), torch.fft.irfft(torch.fft.rfft(x))))
    module, _ = from_pytorch(torch.export.export(function, (x,)))
    lines, signal = interpret(module, [x.numpy()])
    exact = np.fft.rfft(x.numpy().astype(np.float64))
    np.testing.assert_allclose(lines[..., 0] + 1j * lines[..., 1], exact, 1e-5, 1e-5)
    np.testing.assert_allclose(signal, x.numpy(), 1e-5, 1e-6)
    constants = [node.data.size for node in post_order(module["main"].body) if isinstance(node, Constant)]
    assert max(constants) <= 52 * 52  # 2080 is 40 by 52


def test_complex_weights_and_changed_inputs() -> None:
    class Filter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(Z.clone())
            self.register_buffer("seen", torch.zeros(3, 4, dtype=torch.complex64))

        def forward(self, z: Any) -> Any:
            self.seen.add_(z)
            return z * self.weight

    module, specs = from_pytorch(torch.export.export(Filter(), (Z,)))
    assert [(spec.name, tuple(spec.type.shape)) for spec in specs] == [("z", (3, 4, 2)), ("seen", (3, 4, 2))]
    found, seen = interpret(module, [plain(Z), plain(Z)])
    np.testing.assert_allclose(found, plain(Z * Z), 1e-5, 1e-6)
    np.testing.assert_allclose(seen, plain(2 * Z), 1e-6)


def test_what_has_no_converter_is_named() -> None:
    program = torch.export.export(Call(lambda z: torch.linalg.inv(z[:, :3])), (Z,))
    with pytest.raises(UnsupportedError, match="of complex numbers: no converter"):
        from_pytorch(program)


def test_complex_programs_of_torchscript_agree(tmp_path: Any) -> None:
    def spectrum(x: Any) -> Any:
        lines = torch.stft(x, 16, 4, window=torch.ones(16), return_complex=True)
        return lines.abs(), lines * 2j

    x = X.reshape(1, 24)
    torch.jit.save(torch.jit.trace(Call(spectrum), (x,)), tmp_path / "spectrum.pt")
    model = tilewright.compile(str(tmp_path / "spectrum.pt"), (x,), cache=False)
    for value, right in zip(model.run({model.inputs[0].name: x.numpy()}), spectrum(x), strict=True):
        np.testing.assert_allclose(value, plain(right), 1e-4, 1e-5)


def test_torchscript_branches_on_complex_numbers_are_refused() -> None:
    class Choice(torch.jit.ScriptModule):  # type: ignore[misc]
        pass

    body = "if bool(x.sum() > 0):\n    y = y * 2\n  return y.abs()"
    module = Choice()
    module.define(f"def forward(self, x: Tensor) -> Tensor:\n  y = torch.complex(x, x)\n  {body}\n")
    with pytest.raises(UnsupportedError, match="complex numbers that a branch"):
        tilewright.compile(module, (X,), cache=False)
