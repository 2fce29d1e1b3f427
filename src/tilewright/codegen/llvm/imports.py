"""LLVM IR that a program brings along, linked into the module whose functions call into it.

    s[C].pragma(axis, "import_llvm", text)      ->     func.attrs["import_llvm"] = (text,)

The text, or a file ending in ".ll" or ".bc" that it names, defines functions that `call_extern` calls. Once linked they
are the module's own: two modules may bring functions of one name. So may two texts for one module, where they define it
alike; then the first definition stands.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilewright.errors import InputError
from tilewright.support.forks import between_forks
from tilewright.tir.stmt import IMPORT_LLVM, PrimFunc


def imports_of(funcs: Sequence[PrimFunc]) -> list[str]:
    """The imports of the functions of a module, each text once."""
    return list(dict.fromkeys(text for func in funcs for text in func.attrs.get(IMPORT_LLVM, ())))


@between_forks
def with_imports(text: str, imports: Sequence[str]) -> str:
    """The module `text` with the functions that `imports` define. Raises `InputError` for what is no LLVM IR."""
    # a model whose kernels are in the cache does without LLVM
    from llvmlite import binding as llvm

    module, own = llvm.parse_assembly(text), set()
    bodies: dict[str, str] = {}
    for given in imports:
        other = _parsed(given)
        other.triple, other.data_layout = module.triple, module.data_layout
        for one in other.functions:
            if not one.is_declaration and _body(one) == bodies.setdefault(one.name, _body(one)) and one.name in own:
                one.linkage = "available_externally"  # which yields to the definition that is there
        own |= {one.name for one in (*other.functions, *other.global_variables) if not one.is_declaration}
        try:
            module.link_in(other)
        except RuntimeError as error:
            raise InputError(f"import_llvm: the imported functions do not match their calls: {error}") from None
    for name in own:  # not before all are linked: two that differ are an error
        _named(module, name).linkage = "internal"
    return str(module)


def _body(function: Any) -> str:
    """The text of a definition without attributes, remarks and the numbers of metadata, which modules count anew."""
    return " ".join(re.sub(r"[#!]\d+|;.*", "", str(function)).split())


def _parsed(given: str) -> Any:
    # as above
    from llvmlite import binding as llvm

    try:
        if given.endswith((".ll", ".bc")) and "\n" not in given:
            content = Path(given).read_bytes()
            return llvm.parse_bitcode(content) if given.endswith(".bc") else llvm.parse_assembly(content.decode())
        return llvm.parse_assembly(given)
    except OSError as error:
        raise InputError(f"import_llvm: cannot read {given}: {error.strerror or error}") from None
    except (RuntimeError, UnicodeDecodeError) as error:
        raise InputError(f"import_llvm: the imported text is no LLVM IR: {error}") from None


def _named(module: Any, name: str) -> Any:
    try:
        return module.get_function(name)
    except NameError:
        return module.get_global_variable(name)
