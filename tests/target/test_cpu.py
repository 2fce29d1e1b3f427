"""Targets: spelling, this machine's figures, known and unknown names."""

from __future__ import annotations

import pickle

import pytest

from tilewright.errors import EnvironmentError_, TargetError
from tilewright.target import PROCESSORS, Target

SPECS = [
    "cpu", "llvm", "cpu -cores=1 -l2=262144", "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512",
    "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell",
    "llvm -mtriple=x86_64-linux-gnu -mcpu=znver4 -mattr=-avx512bf16,-gfni", "llvm -mtriple=aarch64-linux-gnu",
    "llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1 -mattr=+bf16", "llvm -mtriple=riscv64-linux-gnu",
]  # fmt: skip


@pytest.mark.parametrize("spec", SPECS)
def test_spelling_round_trips(spec):
    target = Target(spec)
    again = Target(str(target))
    assert again == target
    assert hash(again) == hash(target)
    assert str(again) == str(target)
    for name in ("triple", "cpu", "features", "feature_string", "vector_bits", "l1d", "l2", "l3", "cores"):
        assert getattr(again, name) == getattr(target, name), name
    assert pickle.loads(pickle.dumps(target)) == target


def test_the_host_has_plausible_figures(monkeypatch):
    monkeypatch.delenv("TILEWRIGHT_TARGET", raising=False)
    host = Target.host()
    assert host == Target("cpu") == Target("llvm") == Target(Target("cpu"))
    assert host.is_host
    assert host.vector_bits in (64, 128, 256, 512)
    assert 4096 <= host.l1d <= host.l2
    assert host.cores >= 1


def test_the_environment_says_which_processor_cpu_is(monkeypatch):
    host, haswell = Target.host(), "-mtriple=x86_64-linux-gnu -mcpu=haswell"
    monkeypatch.setenv("TILEWRIGHT_TARGET", f"llvm {haswell} -l2=65536")
    assert Target("cpu") == Target("llvm") == Target(f"llvm {haswell} -l2=65536")
    assert Target("c") == Target(f"c {haswell} -l2=65536")
    assert Target("cpu -l2=131072") == Target(f"llvm {haswell} -l2=131072")
    assert Target("cpu -mattr=-fma").features == tuple(f for f in Target("cpu").features if f != "fma")
    assert Target.host() == Target("llvm -mcpu=native") == host
    assert Target("llvm -mtriple=aarch64-linux-gnu").cpu == "generic" and Target("wasm").architecture == "wasm32"
    monkeypatch.setenv("TILEWRIGHT_TARGET", "cuda")
    with pytest.raises(EnvironmentError_, match="TILEWRIGHT_TARGET='cuda' is not valid: expected a CPU target"):
        Target("cpu")


@pytest.mark.parametrize(
    ("cpu", "bits", "registers"),
    [("x86-64", 128, 16), ("haswell", 256, 16), ("znver3", 256, 16), ("skylake-avx512", 512, 32), ("znver4", 512, 32)],
)
def test_vectors_of_processors(cpu, bits, registers):
    target = Target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu}")
    assert (target.vector_bits, target.vector_registers) == (bits, registers)
    assert target.supports("fma") == target.has_fma == (bits > 128)


def test_features_change_what_a_target_is():
    base = "llvm -mtriple=x86_64-linux-gnu -mcpu=znver4"
    narrow = Target(base + " -mattr=-avx512f")
    assert narrow.vector_bits == 256
    assert not any(name.startswith("avx512") for name in narrow.features)
    assert "-avx512vl" in narrow.feature_string
    assert narrow != Target(base)
    assert Target(base + " -mattr=+avx512f") == Target(base)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("rocm", "known: cpu, llvm, c, wasm, opencl, cuda"),
        ("", "known: cpu, llvm"),
        ("llvm -mcpu=pentium9", "unknown processor 'pentium9'.*znver4"),
        ("llvm -mtriple=sparc-linux", "unknown architecture 'sparc'.*x86_64, aarch64, riscv64"),
        ("llvm -mattr=+magic", r"unknown feature '\+magic'.*avx2"),
        ("llvm -mattr=avx2", "unknown feature 'avx2'"),
        ("llvm -O3", "unknown option '-O3'.*-mcpu="),
        ("cpu -cores=none", "-cores=none is not a positive number"),
        ("cpu -l1d=0", "-l1d=0 is not a positive number"),
    ],
)
def test_unknown_names_are_refused_with_the_known_ones(spec, message):
    with pytest.raises(TargetError, match=message):
        Target(spec)


def test_a_target_is_immutable():
    with pytest.raises(AttributeError, match="immutable"):
        Target("cpu").cores = 3


@pytest.mark.parametrize(
    ("spec", "converts"),
    [("x86_64-linux-gnu -mcpu=haswell", True), ("x86_64-linux-gnu -mcpu=x86-64-v2", False),
     ("aarch64-linux-gnu", True), ("riscv64-linux-gnu", False), ("wasm32-unknown-unknown", False)],
)  # fmt: skip
def test_who_converts_half_precision(spec, converts):
    assert Target(f"llvm -mtriple={spec}").converts_half == converts


def test_llvm_knows_every_processor_and_feature(capfd):
    """LLVM only prints a warning for names it does not know, and generates code for something else."""
    from llvmlite import binding as llvm

    llvm.initialize_all_targets()
    for architecture, table in PROCESSORS.items():
        made = llvm.Target.from_triple(f"{architecture}-linux-gnu")
        for cpu, features in table.items():
            made.create_target_machine(cpu=cpu, features=",".join("+" + f for f in features))
            assert capfd.readouterr().err == "", cpu
