"""`tvm.testing`: comparing arrays, and running tests on the targets that work here: the CPU."""

from __future__ import annotations

import importlib.util
import inspect
import itertools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.arith.analyzer import Analyzer
from tilewright.compat.classic.array import to_numpy
from tilewright.compat.classic.device import Device, cpu, device
from tilewright.compat.classic.runtime import enabled
from tilewright.errors import EnvironmentError_
from tilewright.tir import as_const, op
from tilewright.tir.visitor import substitute


def assert_allclose(actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7) -> None:
    """Raise `AssertionError` unless shapes are equal and |actual - desired| <= atol + rtol * |desired| everywhere."""
    actual, desired = to_numpy(actual), to_numpy(desired)
    np.testing.assert_equal(np.shape(actual), np.shape(desired))
    np.testing.assert_allclose(actual, desired, rtol=rtol, atol=atol, verbose=True)


def device_enabled(target: Any) -> bool:
    """True if tests for the target can run."""
    return enabled(str(target))


def enabled_targets() -> list[tuple[str, Device]]:
    """The targets that tests run on, with their devices."""
    return [("llvm", cpu())]


def echo(value: Any) -> Any:
    """`value`."""
    return value


def uses_gpu(*args: Any) -> Any:
    """Mark a test that also runs on GPUs; it runs on the CPU here."""
    return args[0] if args else lambda test: test


def requires_llvm(*args: Any) -> Any:
    """Mark a test that needs code for CPUs, which there always is."""
    return args[0] if args else lambda test: test


def slow(test: Any) -> Any:
    """Mark a test that takes long."""
    return test


def requires_rpc(*args: Any) -> Any:
    """Skip a test that needs remote devices."""
    return _skipping("this package has no remote devices yet")(*args)


def requires_package(*packages: str) -> Callable[[Any], Any]:
    """Skip a test unless all `packages` can be imported."""
    missing = [name for name in packages if importlib.util.find_spec(name.split(".")[0]) is None]
    if not missing:
        return lambda test: test
    return _skipping(f"it needs the package {', '.join(missing)}")


def _pytest() -> Any:
    try:
        import pytest
    except ImportError:
        raise EnvironmentError_(
            "tvm.testing marks tests for pytest, which is not installed; pip install pytest"
        ) from None
    return pytest


def _skipping(reason: str) -> Callable[..., Any]:
    def mark(*args: Any) -> Any:
        skip = _pytest().mark.skip(reason=reason)
        return skip(args[0]) if args and callable(args[0]) else skip

    return mark


requires_gpu = _skipping("it needs a GPU that models can be compiled for")
requires_cuda = _skipping("it needs CUDA")
requires_opencl = _skipping("it needs OpenCL")
requires_metal = _skipping("it needs Metal")
requires_vulkan = _skipping("it needs Vulkan")
requires_rocm = _skipping("it needs ROCm")
requires_tensorcore = _skipping("it needs a GPU with tensor cores")
requires_cudagraph = _skipping("it needs CUDA")
requires_micro = _skipping("it needs a microcontroller")


def parametrize_targets(*args: Any) -> Any:
    """Run a test with parameters `target` and `dev` on each target named (all without names) that is enabled."""
    if len(args) == 1 and callable(args[0]):
        return _on_targets([name for name, _ in enabled_targets()])(args[0])
    return _on_targets([str(target) for target in args])


def exclude_targets(*targets: str) -> Callable[[Any], Any]:
    """Run a test with parameters `target` and `dev` on the enabled targets other than these."""
    return _on_targets([name for name, _ in enabled_targets() if name not in targets])


def known_failing_targets(*targets: str) -> Callable[[Any], Any]:
    """Run a test with parameters `target` and `dev`; it is expected to fail on these."""
    if not any(enabled(target) for target in targets):
        return _on_targets([name for name, _ in enabled_targets()])
    return _pytest().mark.xfail(reason=f"known to fail on {', '.join(targets)}")


def _on_targets(targets: Sequence[str]) -> Callable[[Any], Any]:
    cases = [(name, device(name)) for name in targets if enabled(name)]

    def mark(test: Any) -> Any:
        wanted = test.__code__.co_varnames[: test.__code__.co_argcount] if hasattr(test, "__code__") else ()
        if "dev" in wanted:
            return _pytest().mark.parametrize(("target", "dev"), cases)(test)
        return _pytest().mark.parametrize("target", [name for name, _ in cases])(test)

    return mark


def parameter(*values: Any, ids: Any = None, by_dict: Any = None) -> Any:
    """A fixture, named by the variable it is assigned to, that gives each of `values` in turn."""
    if by_dict:
        ids, values = list(by_dict), tuple(by_dict.values())

    def give(request: Any) -> Any:
        return request.param

    return _pytest().fixture(params=values, ids=ids)(give)


def fixture(func: Any = None, *, cache_return_value: bool = False) -> Any:
    """A fixture; `cache_return_value` keeps its value for the whole run."""
    make = _pytest().fixture(scope="session" if cache_return_value else "function")
    return make if func is None else make(func)


def main() -> None:
    """Run the tests of the calling file, as `python test_file.py` does."""
    sys.exit(_pytest().main([sys.argv[0], *sys.argv[1:]]))


def check_numerical_grads(
    function: Callable[..., Any],
    input_values: Sequence[Any],
    grad_values: Sequence[Any],
    function_value: Any = None,
    delta: float = 1e-3,
    atol: float = 1e-2,
    rtol: float = 0.1,
) -> None:
    """Raise `AssertionError` unless `grad_values` are the gradients of the scalar `function` by central differences.

    The distance between the two gradients, over all elements of an input, may be at most
    atol * sqrt(elements) + rtol * |gradient|.
    """
    for index, (value, grad) in enumerate(zip(input_values, grad_values, strict=True)):
        numeric = np.empty(value.shape, "float64")
        for place in np.ndindex(value.shape):
            ends = []
            for step in (delta, -delta):
                moved = [np.array(v, copy=True) for v in input_values]
                moved[index][place] += step
                ends.append(float(function(*moved)))
            numeric[place] = (ends[0] - ends[1]) / (2 * delta)
        distance = float(np.linalg.norm(np.asarray(grad, "float64") - numeric))
        allowed = atol * float(np.sqrt(value.size)) + rtol * float(np.linalg.norm(numeric))
        if distance > allowed:
            raise AssertionError(
                f"gradient {index} is off by {distance:.3g}, {allowed:.3g} is allowed:\n{grad}\n{numeric}"
            )


def parameters(*value_sets: Any, ids: Any = None) -> list[Any]:
    """Fixtures that vary together, one for each place of the tuples: `a, b = parameters((1, 2), (3, 4))`."""
    # Fixtures vary together if they read one that has the parameters, and pytest finds that one by its name in the
    # module only: so it is put there.
    module = sys._getframe(1).f_globals
    hidden = f"_parameters_{sum(name.startswith('_parameters_') for name in module)}"
    module[hidden] = parameter(*value_sets, ids=ids)
    return [_one_place(hidden, place) for place in range(len(value_sets[0]))]


def _one_place(hidden: str, place: int) -> Any:
    def give(**sets: Any) -> Any:
        return sets[hidden][place]

    given = inspect.Parameter(hidden, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    give.__signature__ = inspect.Signature([given])  # type: ignore[attr-defined]
    return _pytest().fixture(give)


def assert_prim_expr_equal(lhs: Any, rhs: Any) -> None:
    """Raise `ValueError` unless both expressions certainly have one value."""
    a, b = op.convert(lhs), op.convert(rhs)
    if not Analyzer().can_prove_equal(a, b):
        raise ValueError(f"{a!r} is not known to equal {b!r}")


def check_bool_expr_is_true(bool_expr: Any, vranges: Any, cond: Any = None) -> None:
    """Raise `AssertionError` unless the expression holds for all values of its variables in their ranges.

    `vranges` maps variables to ranges; where `cond` does not hold, nothing is asked.
    """
    names = list(vranges)
    lows = [int(r.min) for r in vranges.values()]
    extents = [int(r.extent) for r in vranges.values()]
    wanted = bool_expr if cond is None else op.any(op.logical_not(cond), bool_expr)
    for place in itertools.product(*[range(low, low + n) for low, n in zip(lows, extents, strict=True)]):
        values = {var: op.const(value, str(var.dtype)) for var, value in zip(names, place, strict=True)}
        if not as_const(Analyzer().simplify(substitute(wanted, values))):
            told = ", ".join(f"{var.name} = {value}" for var, value in zip(names, place, strict=True))
            raise AssertionError(f"{bool_expr!r} does not hold for {told}")
