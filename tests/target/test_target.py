"""The tree of targets: who belongs to which class, and what each of them has."""

from __future__ import annotations

import copy
import pickle

import pytest

from tilewright.errors import TargetError
from tilewright.target import CpuTarget, DeviceTarget, Target


@pytest.mark.parametrize(
    ("spec", "cls"),
    [
        ("cpu", CpuTarget),
        ("c", CpuTarget),
        ("wasm", CpuTarget),
        ("cuda -arch=sm_90", DeviceTarget),
        ("cuda:1 -arch=sm_80,sm_90a", DeviceTarget),
        ("opencl:2", DeviceTarget),
    ],
)
def test_a_spelling_belongs_to_a_class(spec, cls):
    target = Target(spec)
    assert type(target) is cls and target.kind in cls.KINDS
    assert Target(str(target)) == target and Target(target) is target
    assert pickle.loads(pickle.dumps(target)) == target and copy.deepcopy(target) == target


def test_a_device_has_nothing_of_a_processor():
    device = Target("cuda")
    assert device.architecture == "cuda" and not device.is_host and not device.supports("avx2")
    for name in ("vector_bits", "l2", "cores", "features", "machine"):
        with pytest.raises(TargetError, match=f"no processor, so it has no {name}"):
            getattr(device, name)
    assert not hasattr(device, "no_field_of_any_target")


def test_an_unknown_kind_is_refused_with_those_there_are():
    for spec in ("vax", ""):
        with pytest.raises(TargetError, match="known: cpu, llvm, c, wasm, opencl, cuda, metal, vulkan, webgpu"):
            Target(spec)


def test_several_architectures_are_listed_from_the_oldest_on():
    target = Target("cuda -arch=sm_90a,sm_80,sm_90a")
    assert str(target).endswith(" -arch=sm_80,sm_90a")
    assert (target.arch, target.architectures) == ("sm_80", ("sm_80", "sm_90a"))
    assert target.each() == [Target("cuda -arch=sm_80"), Target("cuda -arch=sm_90a")]
    assert Target("opencl").each() == [Target("opencl")]
    for wrong in ("90", "sm_", "sm_80,", "ampere"):
        with pytest.raises(TargetError, match="is no architecture of a GPU; write it as sm_80 or sm_90a"):
            Target(f"cuda -arch={wrong}")


def test_the_number_of_a_device():
    target = Target("cuda:1 -arch=sm_80")
    assert (target.kind, target.ordinal, str(target)[:7]) == ("cuda", 1, "cuda:1 ")
    assert Target("cuda").ordinal is None and Target("cuda:0").ordinal == 0
    for wrong in ("cuda:x", "cuda:", "llvm:1", "cpu:0"):
        with pytest.raises(TargetError, match="unknown target"):
            Target(wrong)
