#!/usr/bin/env python3
"""Compare the parameters of classic functions with ours, and write docs/compat_signatures.md.

    scripts/compat_signatures.py            rewrites the page
    scripts/compat_signatures.py --check    says whether it is what would be written

The facts are in src/tilewright/compat/tables/signatures.txt.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from tilewright.compat import install
from tilewright.compat.runtime.refused import Refused
from tilewright.compat.tables.signatures import REMARKS, classic_signature, facts, own_signature, same_default
from tilewright.errors import TilewrightError

#: Parameters whose classic values ours recognizes by themselves: by their type, or as the only argument there is.
RECOGNIZED = {"tvm.relay.Call": {"type_args"}, "tvm.runtime.vm.Executable": {"mod"}}
PAGE = Path(__file__).resolve().parent.parent / "docs" / "compat_signatures.md"
HEAD = """# Classic parameters

Written by `scripts/compat_signatures.py` from the parameters of {all} public classic functions and methods (v0.8:
names, order, defaults; `src/tilewright/compat/tables/signatures.txt`) and those that Python tells of ours. Where ours
has other names, another order or other defaults, a function of the classic parameters stands before it; an argument
that ours has no parameter for raises an error unless it is the default. A test holds that nothing is taken in silence.

{same} take the classic parameters, {differ} differ as listed here, {missing} are not there.

## What differs

`-name`: passing it raises an error, but for the classic default. `name: …`: the default here is another one, since the
classic one leaves a choice that is made here, or stands for the same.

"""


def reach(name: str) -> Any:
    """The object of the dotted classic `name`; None if nowhere, or to something that raises when it is used."""
    value: Any = importlib.import_module(name.split(".")[0])
    try:
        for attribute in name.split(".")[1:]:
            value = getattr(value, attribute)
    except (AttributeError, ImportError, TilewrightError):
        return None
    return None if isinstance(value, Refused) else value


def own_parameters(value: Any) -> inspect.Signature | None:
    """The parameters of ours, without `self`."""
    found = own_signature(value)
    names = list(found.parameters.values()) if found else []
    return found.replace(parameters=names[1:]) if found and names and names[0].name == "self" else found


def differences(classic: inspect.Signature, ours: inspect.Signature) -> tuple[list[str], list[str]]:
    """Differences for a caller by the classic parameters: those that raise, and those that pass in silence."""
    raising, silent = [], []
    own = list(ours.parameters.values())
    any_keyword = any(param.kind is param.VAR_KEYWORD for param in own)
    for position, param in enumerate(classic.parameters.values()):
        if param.name in REMARKS or param.kind in (param.VAR_KEYWORD, param.VAR_POSITIONAL):
            continue
        mine = ours.parameters.get(param.name)
        if mine is None:
            taken = position < len(own) and own[position].kind is own[position].POSITIONAL_OR_KEYWORD
            if any_keyword or (taken and param.default is not param.empty and own[position].name in classic.parameters):
                silent.append(f"{param.name} is taken by another parameter")
            else:
                raising.append(f"-{param.name}")
        elif mine.kind is mine.POSITIONAL_OR_KEYWORD and [p.name for p in own].index(param.name) != position:
            silent.append(f"{param.name} stands at another position")
        elif param.default is not param.empty and not same_default(param.default, mine.default):
            raising.append(f"{param.name}: {'must be given' if mine.default is mine.empty else repr(mine.default)}")
    return raising, silent


def compare() -> tuple[dict[str, tuple[list[str], list[str]]], list[str]]:
    """The differences of every classic function that is there, and the names of those that are not."""
    install()
    found, missing = {}, []
    for name in facts():
        value, classic = reach(name), classic_signature(name)
        if classic is not None and name in RECOGNIZED:
            kept = [param for key, param in classic.parameters.items() if key not in RECOGNIZED[name]]
            classic = classic.replace(parameters=kept)
        ours = None if value is None else own_parameters(value)
        if ours is None or classic is None:
            missing.append(name)
        else:
            found[name] = differences(classic, ours)
    return found, missing


def page() -> str:
    """The text of the page."""
    found, missing = compare()
    rows = {name: raising + silent for name, (raising, silent) in found.items() if raising or silent}
    counts = {"all": len(facts()), "same": len(found) - len(rows), "differ": len(rows), "missing": len(missing)}
    lines = [HEAD.format(**counts), "| function | differs |\n|---|---|\n"]
    lines += [f"| `{name}` | {'; '.join(what)} |\n" for name, what in sorted(rows.items())]
    groups: dict[str, list[str]] = defaultdict(list)
    for name in missing:
        namespace, _, last = name.rpartition(".")
        groups[namespace].append(last)
    lines += ["\n## What is not there\n\n"]
    lines += [f"- `{namespace}`: {', '.join(sorted(names))}\n" for namespace, names in sorted(groups.items())]
    return "".join(lines)


def main() -> int:
    """Write or check the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    text = page()
    if not parser.parse_args().check:
        PAGE.write_text(text)
    elif PAGE.read_text() != text:
        print(f"{PAGE.name} is not what scripts/compat_signatures.py writes now", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
