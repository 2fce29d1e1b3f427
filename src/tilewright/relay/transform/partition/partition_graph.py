"""Each marked region becomes a function of the module that an external code generator compiles.

Before: %0 = nn.dense(begin(%x), w); %1 = nn.relu(%0); end(%1)
After:  def @host_0(%i0, Compiler="host", Primitive=1, global_symbol="host_0") { nn.relu(nn.dense(%i0, w)) }
        def @main(%x) { @host_0(%x) }

Constants go into the function. A region with several results returns a tuple.
"""

from __future__ import annotations

from tilewright.relay.ir.expr import Call, Constant, Expr, Function, GlobalVar, Tuple, TupleGetItem, Var
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.visitor import children, consumers, post_order, rebuild
from tilewright.relay.transform.partition.regions import Region, Regions, read_regions


def partition_graph(mod: IRModule) -> IRModule:
    """Make a function of every marked region of `main`; see the module's docstring."""
    mod = infer_type(mod)
    main = mod["main"]
    regions = read_regions(main.body)
    if not regions.of:
        return mod
    infer_type(mod.with_function("main", main.with_body(regions.body)))
    partition = _Partition(mod, regions)
    rewritten = mod.with_function("main", main.with_body(partition.run()))
    return infer_type(rewritten.with_functions({**rewritten.functions, **partition.functions}))


class _Partition:
    """The new graph, built node by node: a region is replaced when the first of its results is needed."""

    def __init__(self, mod: IRModule, regions: Regions) -> None:
        self.taken = {gvar.name for gvar in mod.functions}
        self.regions = regions
        self.functions: dict[GlobalVar, Function] = {}
        self.users = consumers(post_order(regions.body))
        self.fresh: dict[Expr, Expr] = {}

    def run(self) -> Expr:
        """The graph with a call instead of each region."""
        stack = [self.regions.body]
        while stack:
            node = stack[-1]
            if node in self.fresh:
                stack.pop()
                continue
            region = self.regions.of.get(node)
            needed = list(children(node)) if region is None else _inputs(region)
            missing = [kid for kid in needed if kid not in self.fresh]
            if missing:
                stack.extend(reversed(missing))
                continue
            stack.pop()
            if region is None:
                self.fresh[node] = rebuild(node, tuple([self.fresh[kid] for kid in children(node)]))
            else:
                self._replace(region)
        return self.fresh[self.regions.body]

    def _replace(self, region: Region) -> None:
        inside = set(region.nodes)
        results = [n for n in region.nodes if n is self.regions.body or any(u not in inside for u in self.users[n])]
        inputs = _inputs(region)
        params = [Var(f"i{index}", value.checked_type) for index, value in enumerate(inputs)]
        inner: dict[Expr, Expr] = dict(zip(inputs, params, strict=True))
        for node in region.nodes:
            kids = [kid if isinstance(kid, Constant) else inner[kid] for kid in children(node)]
            inner[node] = rebuild(node, tuple(kids))
        values = [inner[node] for node in results]
        name = self._name(region.compiler)
        attrs = {"Compiler": region.compiler, "Primitive": 1, "global_symbol": name}
        gvar = GlobalVar(name)
        self.functions[gvar] = Function(params, values[0] if len(values) == 1 else Tuple(values), attrs=attrs)
        call = Call(gvar, [self.fresh[value] for value in inputs])
        for index, node in enumerate(results):
            self.fresh[node] = call if len(results) == 1 else TupleGetItem(call, index)

    def _name(self, compiler: str) -> str:
        number = 0
        while f"{compiler}_{number}" in self.taken:
            number += 1
        self.taken.add(f"{compiler}_{number}")
        return f"{compiler}_{number}"


def _inputs(region: Region) -> list[Expr]:
    """The values that a region reads, in order, but for constants, which go into it."""
    inside = set(region.nodes)
    kids = [kid for node in region.nodes for kid in children(node)]
    return list(dict.fromkeys([kid for kid in kids if kid not in inside and not isinstance(kid, Constant)]))
