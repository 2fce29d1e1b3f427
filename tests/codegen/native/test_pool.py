"""The worker pool's text: it compiles for every machine, and once. tests/runtime/test_native.py runs it."""

from __future__ import annotations

from pathlib import Path

import pytest
from llvmlite import binding as llvm

from tilewright.codegen.native import pool, pool_code
from tilewright.runtime.elf import parse_object
from tilewright.runtime.native import EXPORTS


@pytest.mark.parametrize("machine", pool.supported_machines())
def test_text_compiles_for_each_machine(machine: str) -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(f"{machine}-unknown-linux-gnu")
    module = llvm.parse_assembly(pool.pool_text(machine))
    module.triple = target.triple
    module.verify()
    code = target.create_target_machine(opt=2, reloc="pic").emit_object(module)
    assert code[18:20] == {"x86_64": b"\x3e\x00", "aarch64": b"\xb7\x00", "riscv64": b"\xf3\x00"}[machine]
    assert "$" not in pool.pool_text(machine)


def test_the_code_is_kept_and_exports_what_the_runtime_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    made = pool_code.pool_code()
    symbols = {symbol.name for symbol in parse_object(made).symbols}
    assert symbols >= set(EXPORTS)

    def compile_again(text: str) -> bytes:
        raise AssertionError("compiled again")

    monkeypatch.setattr(pool_code, "compile_text", compile_again)
    assert pool_code.pool_code() == made
