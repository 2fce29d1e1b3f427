"""Graph passes that plug-ins add to the compiler's pipeline.

add_graph_pass(count_nodes, after="simplify_expr")
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright.errors import UnsupportedError
from tilewright.relay.ir.module import IRModule
from tilewright.relay.transform.manager.graph_pass import GraphPass
from tilewright.relay.transform.manager.pass_manager import DEFAULT_OPT_LEVEL
from tilewright.support import plugins
from tilewright.support.suggestion import suggestion
from tilewright.target import Target


@dataclass(frozen=True)
class _Added:
    graph_pass: GraphPass
    after: str


_ADDED: dict[str, _Added] = {}


def add_graph_pass(
    function: Callable[[IRModule, Target], IRModule],
    *,
    after: str,
    opt_level: int = DEFAULT_OPT_LEVEL,
    name: str | None = None,
) -> None:
    """Let `function(mod, target)` run behind the pass `after`, by its name or `name`, from `opt_level` on.

    Several behind one pass run in the order in which they were added. Contexts switch it off and instruments see it as
    they do any other. Raises `UnsupportedError` for a name that is taken by another added pass.
    """
    called = name or function.__name__
    if called in _ADDED:
        raise UnsupportedError(f"the graph pass {called!r} is added twice; rename one of them")
    # whatever the function calls its second parameter, it is the target
    graph_pass = GraphPass(called, opt_level, "", lambda mod, target: function(mod, target))
    _ADDED[called] = _Added(graph_pass, after)
    plugins.note("graph pass", f"{called} after {after}, level {opt_level}", function)


def with_added_passes(pipeline: Sequence[GraphPass]) -> tuple[GraphPass, ...]:
    """`pipeline` with the passes that were added, each behind the one it names.

    Raises `UnsupportedError` where there is no such pass, or one of the same name already.
    """
    result = list(pipeline)
    for name, added in _ADDED.items():
        names = [known.name for known in result]
        if name in names:
            raise UnsupportedError(f"the graph pass {name!r} is added to a pipeline that has one of that name")
        if added.after not in names:
            hint = suggestion(added.after, names)
            raise UnsupportedError(
                f"the added graph pass {name!r} is to run after {added.after!r}, which is unknown{hint}"
            )
        index = names.index(added.after) + 1
        while index < len(names) and names[index] in _ADDED and _ADDED[names[index]].after == added.after:
            index += 1
        result.insert(index, added.graph_pass)
    return tuple(result)
