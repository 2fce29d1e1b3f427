"""Calls that an external code generator takes are marked: each is a region of its own.

Before: nn.relu(nn.dense(%x, %w))                                       (the code generator "host" takes both)
After:  %0 = nn.dense(compiler_begin(%x, "host"), compiler_begin(%w, "host")); %1 = compiler_end(%0, "host");
        %2 = nn.relu(compiler_begin(%1, "host")); compiler_end(%2, "host")

Where several take a call, the first of `targets` gets it. A tuple that only that call reads, such as the operands of a
concatenation, goes into its region. Parts of `main` that run conditionally are not looked into.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.relay.ir.expr import Call, Tuple
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.visitor import consumers, post_order
from tilewright.relay.transform.functional.scopes import find_scopes
from tilewright.relay.transform.partition.external import ExternalCodegen, find_external, takes
from tilewright.relay.transform.partition.regions import Region, Regions, annotated, read_regions


def annotate_target(mod: IRModule, targets: Sequence[str | ExternalCodegen] | str) -> IRModule:
    """Mark what external code generators take, by name or as they are; see the module's docstring.

    Regions that are marked already stay as they are. Raises `UnsupportedError` for a name without a code generator.
    """
    named = [targets] if isinstance(targets, str) else targets
    codegens = [find_external(one) if isinstance(one, str) else one for one in named]
    main = infer_type(mod)["main"]
    regions = read_regions(main.body)
    infer_type(mod.with_function("main", main.with_body(regions.body)))
    scopes = find_scopes(regions.body)
    users = consumers(post_order(regions.body))
    for node in scopes.of:
        if not isinstance(node, Call) or node in regions.of or scopes.of[node] is not scopes.root:
            continue
        tuples = [arg for arg in dict.fromkeys(node.args) if isinstance(arg, Tuple)]
        if not _plain(node) or any(len(users[each]) > 1 for each in tuples):
            continue
        taker = next((codegen for codegen in codegens if takes(codegen, node)), None)
        if taker is not None:
            region = Region(taker.name, [*tuples, node])
            regions.of.update(dict.fromkeys(region.nodes, region))
    return infer_type(mod.with_function("main", main.with_body(annotated(Regions(regions.body, regions.of)))))


def _plain(call: Call) -> bool:
    """True if it reads tensors, or tuples of them as they are written, and returns one."""
    values = [field for arg in call.args for field in (arg.fields if isinstance(arg, Tuple) else (arg,))]
    return all(isinstance(value.checked_type, TensorType) for value in (*values, call))
