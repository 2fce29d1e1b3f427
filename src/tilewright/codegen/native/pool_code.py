"""The worker pool's object code: compiled once for each machine, and kept in the disk cache under its text.

Importing `tilewright.codegen` makes it what the runtime of this process takes where no artifact brings one.
"""

from __future__ import annotations

from tilewright.codegen.native.pool import pool_text
from tilewright.errors import EnvironmentError_
from tilewright.runtime.processor import host_architecture
from tilewright.support.cache import DiskCache, digest, open_cache
from tilewright.support.forks import between_forks


def pool_code() -> bytes:
    """The pool for this machine: 50 ms where it has to be compiled, half of them for importing llvmlite."""
    text = pool_text(host_architecture())
    key = digest("native", host_architecture(), text)
    try:
        cache = open_cache()
    except EnvironmentError_:
        # Whoever needs the cache for its own sake reports that; running a model does not.
        cache = DiskCache(None)
    known = cache.get("native", key)
    if known is not None and known[:4] == b"\x7fELF":
        return known
    made = compile_text(text)
    cache.put("native", key, made)
    return made


@between_forks
def compile_text(text: str) -> bytes:
    """The object code of IR text written for the baseline processor of this machine's architecture."""
    # models from the disk cache run without LLVM, which is slow to import
    from llvmlite import binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(text)
    target = llvm.Target.from_default_triple()
    machine = target.create_target_machine(opt=2, reloc="pic", codemodel="default")
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    module.verify()
    return machine.emit_object(module)
