"""The marks of `tvm.testing`: which targets a test runs on, and what a machine must have for it.

A mark is used in any of the classic spellings: `@requires_gpu`, `@requires_gpu()`, and as a list,
`pytest.param(..., marks=requires_gpu())`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.compat.runtime.device import Device, device
from tilewright.compat.runtime.values import enabled
from tilewright.compat.target.target import llvm_version_major
from tilewright.errors import EnvironmentError_
from tilewright.support import knobs
from tilewright.target import Target

#: Devices that a mark of pytest's is named after; a test that needs one is skipped here.
_GPUS = ("gpu", "tensorcore", "cuda", "opencl", "vulkan", "rocm", "metal")
#: The marks of the tests, and what they say.
MARKS = {
    "gpu": "needs a GPU, or also runs on one",
    **{name: f"needs {name}" for name in (*_GPUS[1:], "llvm", "ethosn", "hexagon", "corstone300")},
    "slow": "takes long",
}


def pytest_module() -> Any:
    """The package pytest. Raises `EnvironmentError_` where it is not installed."""
    try:
        import pytest  # it comes with the tests, not with this package
    except ImportError:
        raise EnvironmentError_(
            "tvm.testing marks tests for pytest, which is not installed; pip install pytest"
        ) from None
    return pytest


def asked_targets() -> list[str]:
    """The targets that tests are asked to run on: those of TVM_TEST_TARGETS, separated by semicolons, or "llvm"."""
    return [target.strip() for target in knobs.TEST_TARGETS.get().split(";") if target.strip()]


def device_enabled(target: Any) -> bool:
    """True if tests for the target can run, and TVM_TEST_TARGETS lists its kind."""
    kind = str(target).split()[0]
    return enabled(kind) and any(kind == asked.split()[0] for asked in asked_targets())


def enabled_targets() -> list[tuple[str, Device]]:
    """The targets that tests run on, with their devices."""
    return [(target, device(target)) for target in asked_targets() if enabled(target)]


def composed(marks: Sequence[Any]) -> Callable[..., Any]:
    """A decorator of all `marks`; called without a test it returns them as a list."""

    def mark(*args: Any) -> Any:
        if not args:
            return list(marks)
        (test,) = args
        for each in reversed(marks):
            test = each(test)
        return test

    return mark


def _requires(reason: str, *names: str) -> Callable[..., Any]:
    """Skips a test, for `reason` (where it is "", the test runs), under the marks `names`."""

    def mark(*args: Any) -> Any:
        pytest = pytest_module()
        skips = [pytest.mark.skip(reason=reason)] if reason else []
        return composed([*skips, *(getattr(pytest.mark, name) for name in names)])(*args)

    return mark


requires_gpu = _requires("it needs a GPU that models can be compiled for", "gpu")
requires_cuda = _requires("it needs CUDA", "cuda", "gpu")
requires_opencl = _requires("it needs OpenCL", "opencl", "gpu")
requires_metal = _requires("it needs Metal", "metal", "gpu")
requires_vulkan = _requires("it needs Vulkan", "vulkan", "gpu")
requires_rocm = _requires("it needs ROCm", "rocm", "gpu")
requires_nvptx = _requires("it needs CUDA", "gpu")
requires_tensorcore = _requires("it needs a GPU with tensor cores", "tensorcore", "gpu")
requires_cudagraph = _requires("it needs CUDA", "cuda", "gpu")
requires_micro = _requires("it needs a microcontroller")
requires_corstone300 = _requires("it needs a simulator of the Corstone-300", "corstone300")
requires_ethosn = _requires("it needs an Ethos-N", "ethosn")
requires_hexagon = _requires("it needs a Hexagon DSP", "hexagon")
requires_arm_dot = _requires("it needs a processor of ARM with dot products")
requires_aarch64_sve = _requires("it needs a processor of ARM with scalable vectors")
requires_aprofile_aem_fvp = _requires("it needs a simulator of ARM's processors")
requires_adreno_opencl = _requires("it needs a GPU of Qualcomm", "opencl", "gpu")
requires_cublas = _requires("it needs CUDA", "cuda", "gpu")
requires_cudnn = _requires("it needs CUDA", "cuda", "gpu")
requires_vitis_ai = _requires("it needs an accelerator of AMD")

# What is always there: code for CPUs, on which tests of GPUs run too, and sessions with servers.
uses_gpu, requires_rpc, requires_llvm = _requires("", "gpu"), _requires("", "rpc"), _requires("", "llvm")
#: A test that takes long.
slow = _requires("", "slow")


def _requires_processor(*needed: str) -> Callable[..., Any]:
    """Skips a test where this processor is no x86-64 with the features `needed`."""
    target = Target("llvm")
    there = target.architecture == "x86_64" and target.supports(*needed)
    return composed([]) if there else _requires(f"it needs x86-64 {' '.join(needed)}")


requires_x86 = _requires_processor()
requires_x86_avx512 = requires_skylake_avx512 = _requires_processor("avx512f", "avx512bw")
requires_x86_vnni = requires_cascadelake = _requires_processor("avx512vnni")
requires_x86_amx = _requires_processor("amx-int8")


def requires_llvm_minimum_version(version: int) -> Callable[..., Any]:
    """Skip a test where code is made by an older LLVM."""
    there = llvm_version_major() >= version
    return composed([]) if there else _requires(f"it needs LLVM {version}")


def skip_if_32bit(*args: Any, reason: str = "") -> Any:
    """Mark a test that machines of 32 bits skip, of which there is none here."""
    return composed([])(*args)


#: A test that needs more of the classic stack than its packages have runs here.
skip_if_wheel_test = composed([])


def install_request_hook(depth: int = 0) -> None:
    """Install the hook through which the classic stack's own machines read downloads; here it does nothing."""


def requires_package(*packages: str) -> Callable[..., Any]:
    """Skip a test unless all `packages` can be imported."""
    missing = [name for name in packages if importlib.util.find_spec(name.split(".")[0]) is None]
    return _requires(f"it needs the package {', '.join(missing)}") if missing else composed([])


def target_params(targets: Sequence[Any], failing: Sequence[str] = (), excluded: Sequence[str] = ()) -> list[Any]:
    """Parameters of a test for `targets`: those that do not run here skipped, `failing` ones expected to fail.

    Targets whose kind, or whole spelling, is in `excluded` are left out.
    """
    pytest = pytest_module()
    params = []
    for target in targets:
        kind = str(target).split()[0]
        if {str(target), kind} & set(excluded):
            continue
        marks = []
        if not enabled(kind):
            marks.append(pytest.mark.skip(reason=f"nothing runs on {kind} here"))
        if {str(target), kind} & set(failing):
            marks.append(pytest.mark.xfail(reason=f"known to fail on {target}"))
        params.append(pytest.param(target, marks=marks))
    return params


def parametrize_targets(*args: Any) -> Any:
    """Run a test with a parameter `target`, and maybe `dev`, on each target named (all enabled ones without names)."""
    if len(args) == 1 and callable(args[0]):
        return parametrize_targets()(args[0])

    def mark(test: Any) -> Any:
        targets = args or [name for name, _ in enabled_targets()]
        return pytest_module().mark.parametrize("target", target_params(targets), scope="session")(test)

    return mark


def _noting(attribute: str) -> Callable[..., Any]:
    """A decorator that adds the targets it is given to those in an attribute of the test."""

    def of_targets(*targets: str) -> Callable[[Any], Any]:
        def mark(test: Any) -> Any:
            setattr(test, attribute, [*getattr(test, attribute, []), *targets])
            return test

        return mark

    return of_targets


#: A test with a parameter `target` does not run on the one's targets, and is expected to fail on the other's.
exclude_targets, known_failing_targets = _noting("tvm_excluded_targets"), _noting("tvm_known_failing_targets")
