"""The processor's architecture and features, against what LLVM finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.errors import EnvironmentError_
from tilewright.runtime.processor import features_of, host_architecture, host_features
from tilewright.target import PROCESSORS


def test_the_host_is_known() -> None:
    assert host_architecture() in ("x86_64", "aarch64")
    assert {"sse2", "neon"} & host_features()


def test_features_are_those_that_llvm_sees() -> None:
    from llvmlite import binding as llvm

    found = {name for name, present in llvm.get_host_cpu_features().items() if present}
    matter = {name for features in PROCESSORS[host_architecture()].values() for name in features}
    assert host_features() & matter == found & matter


def test_names_that_differ(tmp_path: Path) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text("processor\t: 0\nflags\t\t: pni sse4_1 abm bmi1 avx512_vnni amx_tile avx_vnni fma\n")
    names = {"sse3", "sse4.1", "lzcnt", "bmi", "avx512vnni", "amx-tile", "avxvnni", "fma"}
    assert features_of(file, "x86_64") == names
    file.write_text("processor\t: 0\nBogoMIPS\t: 50\nFeatures\t: fp asimd asimdhp asimddp i8mm bf16 atomics\n")
    names = {"fp-armv8", "neon", "fullfp16", "dotprod", "i8mm", "bf16", "lse"}
    assert features_of(file, "aarch64") == names


def test_every_x86_feature_of_a_target_has_a_flag(tmp_path: Path) -> None:
    """The kernel's spelling of all features that targets know, from its cpufeatures.h."""
    flags = """sse2 pni ssse3 sse4_1 sse4_2 popcnt avx avx2 fma f16c bmi1 bmi2 abm movbe avx512f avx512bw avx512cd
        avx512dq avx512vl avx512_vnni avx512ifma avx512vbmi avx512_vbmi2 avx512_bitalg avx512_vpopcntdq gfni vaes
        vpclmulqdq avx512_bf16 avx512_fp16 avx_vnni amx_tile amx_int8 amx_bf16 amx_fp16 avx512_vp2intersect"""
    file = tmp_path / "cpuinfo"
    file.write_text(f"flags: {' '.join(flags.split())}\n")
    assert features_of(file, "x86_64") == {f for features in PROCESSORS["x86_64"].values() for f in features}


def test_no_features_to_be_found(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentError_, match=r"cannot read .*absent: No such file"):
        features_of(tmp_path / "absent", "x86_64")
    (tmp_path / "cpuinfo").write_text("processor: 0\n")
    with pytest.raises(EnvironmentError_, match="does not tell the processor's features"):
        features_of(tmp_path / "cpuinfo", "x86_64")
