"""The walk over TorchScript graphs: known values are computed, calls on others recorded; branches and loops kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from tilewright.errors import UnsupportedError
from tilewright.frontend.idioms import reshape
from tilewright.frontend.torch.script.calls import TYPE_NUMBERS, Caller
from tilewright.frontend.torch.script.values import LISTS, Module, Traced, is_known, leaves
from tilewright.relay.ir.expr import Call, Expr, Function, GlobalVar, If, Tuple, Var
from tilewright.relay.ir.type import FuncType, TupleType
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import all_vars

#: Rounds of a loop whose number is known that are written out; more are a loop of the program.
_MOST_ROUNDS = 256


class Raised(Exception):
    """The program raises an exception on the way that is walked; the message is that of the program."""


class Walker:
    """Walks one program. `states` are attributes, by name, that hold other values than in the module itself."""

    def __init__(self, states: dict[str, Any]) -> None:
        self.caller = Caller()
        self.states = states
        self.functions: dict[GlobalVar, Function] = {}
        self._attributes: dict[str, Any] = {}
        self._assigned: set[str] = set()
        self._within = 0  # branches and loops that a run decides on

    # ------------------------------------------------------------------------------------------------ attributes
    def attribute(self, module: Module, name: str) -> Any:
        """An attribute of a module as the program sees it now."""
        key = module.name(name)
        if key not in self._attributes:
            if key in self.states:
                self._attributes[key] = self.states[key]
            else:
                value = (
                    module.script.getattr(name) if hasattr(module.script, "getattr") else getattr(module.script, name)
                )
                is_module = isinstance(value, torch._C.ScriptObject)
                self._attributes[key] = Module(value, key) if is_module else value
        return self._attributes[key]

    def changed(self) -> dict[str, Any]:
        """The attributes that the program gave other values, with these."""
        now = {key: self.caller.latest(value) for key, value in self._attributes.items()}
        written = {key for key, value in now.items() if isinstance(value, Traced) and value.version}
        return {key: value for key, value in now.items() if key in self._assigned | written}

    def assign(self, key: str, value: Any) -> None:
        """Set an attribute."""
        self._attributes[key] = value
        self._assigned.add(key)

    # ----------------------------------------------------------------------------------------------------- blocks
    def block(self, block: Any, values: dict[str, Any]) -> list[Any]:
        """Walk a block; `values` are those of the variables that it sees. What it returns."""
        for node in block.nodes():
            self.node(node, values)
        return [self._read(one, values) for one in block.outputs()]

    def _read(self, value: Any, values: dict[str, Any]) -> Any:
        return self.caller.latest(values[value.debugName()])

    def node(self, node: Any, values: dict[str, Any]) -> None:
        """Walk a node and keep its results."""
        kind = node.kind()
        given = [self._read(one, values) for one in node.inputs()]
        special = _SPECIAL.get(kind)
        if special is not None:
            results = special(self, node, given, values)
        elif kind.startswith("aten::") or kind in LISTS:
            names = [output.debugName() for output in node.outputs()]
            self.caller.label = names[0] if len(names) == 1 and not names[0].isdigit() else ""
            results = [self._operator(node, kind, given)]
            if node.outputsSize() != 1 and isinstance(results[0], list | tuple):
                results = list(results[0])
        else:
            self.caller.missing.add(kind, f"{kind} ({_position(node)})", "no converter for this operator")
            raise UnsupportedError(f"{kind} ({_position(node)}) of TorchScript is not supported")
        for output, result in zip(node.outputs(), results):
            values[output.debugName()] = result

    def _operator(self, node: Any, kind: str, given: Sequence[Any]) -> Any:
        listed = LISTS.get(kind)
        if listed is not None and not (kind.startswith("aten::") and _of_tensor(node)):
            if self._within and kind in (
                "aten::append",
                "aten::extend",
                "aten::_set_item",
                "aten::insert",
                "aten::pop",
            ):
                raise UnsupportedError(
                    f"{kind} ({_position(node)}): a list that changes within a branch is not supported"
                )
            return listed(*given)
        name, schema = kind.partition("::")[2], torch._C.parse_schema(node.schema())
        number = {"Int": "int", "IntImplicit": "int", "Float": "float", "FloatImplicit": "float", "Bool": "bool"}.get(
            name
        )
        if number is not None:
            return self.caller.number(given[0], number)
        if name in ("item", "ScalarImplicit") and isinstance(given[0], Traced):
            code = given[0].fake.dtype
            return self.caller.number(
                given[0], "bool" if code == torch.bool else "float" if code.is_floating_point else "int"
            )
        tensor = given[0] if given and isinstance(given[0], Traced) and not given[0].kind else None
        if tensor is not None and name in _QUESTIONS:
            return _QUESTIONS[name](self.caller.current(tensor).fake, *given[1:])
        if name in ("__is__", "__isnot__"):
            same = given[0] is given[1]
            return same if name == "__is__" else not same
        return "a message" if name == "format" else self.caller.call(name, schema.overload_name, given)

    # --------------------------------------------------------------------------------------------------- branches
    def branch(self, node: Any, given: Sequence[Any], values: dict[str, Any]) -> list[Any]:
        """The branch that a known condition chooses; else both, and the choice left to the run."""
        blocks = list(node.blocks())
        condition = given[0]
        if not isinstance(condition, Traced):
            return self.block(blocks[0 if condition else 1], dict(values))
        ways: list[tuple[list[Any], dict[str, Any], set[str]]] = []
        before, assigned = dict(self._attributes), set(self._assigned)
        self._within += 1
        raised = ""
        for block in blocks:
            self._attributes = dict(before)
            try:
                ways.append((self.block(block, dict(values)), self._attributes, set(self._assigned)))
            except Raised as error:  # the other way is taken
                raised = str(error)
        self._within -= 1
        if not ways:
            raise Raised(raised)
        self._assigned = assigned.union(*(names for _, _, names in ways))
        if len(ways) == 1:
            self._attributes = ways[0][1]
            return ways[0][0]
        return self._chosen(condition, ways, before)

    def _chosen(self, condition: Traced, ways: Sequence[Any], before: dict[str, Any]) -> list[Any]:
        names = [
            name
            for name in dict.fromkeys([*ways[0][1], *ways[1][1]])
            if any(way[1].get(name, before.get(name)) is not before.get(name) for way in ways)
            and name in self._assigned
        ]
        sides = [
            [*results, *[attributes.get(name, before.get(name)) for name in names]] for results, attributes, _ in ways
        ]
        merged = self._merged(condition, sides)
        count = len(merged) - len(names)
        self._attributes = {**ways[0][1], **ways[1][1], **dict(zip(names, merged[count:]))}
        return merged[:count]

    def _merged(self, condition: Traced, sides: Sequence[list[Any]]) -> list[Any]:
        """The results of either side, as one value each: tensors by one choice of the run."""
        pairs: list[tuple[Any, Any]] = list(zip(*sides))
        open_ = [index for index, (one, other) in enumerate(pairs) if not _same(one, other)]
        flat = [_parts(pairs[index]) for index in open_]
        tensors = [[self.caller.traced(part) for part in side] for pair in flat for side in pair]
        firsts = [value for index in range(0, len(tensors), 2) for value in tensors[index]]
        seconds = [value for index in range(1, len(tensors), 2) for value in tensors[index]]
        if [tensor_type_of(value.tensor) for value in firsts] != [tensor_type_of(value.tensor) for value in seconds]:
            raise UnsupportedError(
                "the branches of an if return tensors of different types or shapes, which is not supported"
            )
        if not firsts:
            return [one for one, _ in pairs]
        test = reshape(self.caller.number(condition, "bool").tensor, ())
        choice = If(test, Tuple([v.tensor for v in firsts]), Tuple([v.tensor for v in seconds]))
        made = iter([Traced(choice[index], value.fake, value.kind) for index, value in enumerate(firsts)])
        results: list[Any] = [one for one, _ in pairs]
        for index in open_:
            value = pairs[index][0]
            results[index] = type(value)([next(made) for _ in value]) if isinstance(value, list | tuple) else next(made)
        return results

    # ------------------------------------------------------------------------------------------------------ loops
    def loop(self, node: Any, given: Sequence[Any], values: dict[str, Any]) -> list[Any]:
        """A loop: written out where its rounds are known and few, else a function that calls itself."""
        (block,) = node.blocks()
        most, condition, *carried = given
        names = [one.debugName() for one in block.inputs()]
        round_ = 0
        while not isinstance(most, Traced) and not isinstance(condition, Traced) and round_ <= _MOST_ROUNDS:
            if not condition or round_ >= most:
                return carried
            inner = {**values, **dict(zip(names, [round_, *carried]))}
            condition, *carried = self.block(block, inner)
            round_ += 1
        return self._repeated(block, names, [round_, most, condition, *carried], values)

    def _repeated(self, block: Any, names: Sequence[str], start: list[Any], values: dict[str, Any]) -> list[Any]:
        """The rest of a loop. Every value that changes is a tensor; what the body sees of outside is handed on."""
        if any(not isinstance(leaf, Traced | bool | int | float | torch.Tensor) for leaf in start):
            raise UnsupportedError("a loop that carries lists, and whose rounds a run decides on, is not supported")
        begin = [self.caller.traced(value) for value in start]
        own = [self.caller.fresh(f"carried_{index}", value.fake) for index, value in enumerate(begin)]
        inside = [Traced(made.expr, made.fake, value.kind) for (_, made), value in zip(own, begin)]
        outer = {name: value for name, value in values.items() if isinstance(value, Traced)}
        handed = {name: self.caller.fresh(f"outer_{index}", self.caller.current(value).fake)
                  for index, (name, value) in enumerate(outer.items())}  # fmt: skip
        seen = {name: Traced(made.expr, made.fake, outer[name].kind) for name, (_, made) in handed.items()}
        before = dict(self._attributes)
        self._within += 1
        inner = {**values, **seen, **dict(zip(names, [inside[0], *inside[3:]]))}
        again, *results = self.block(block, inner)
        self._within -= 1
        if any(self._attributes.get(key) is not value for key, value in before.items()):
            raise UnsupportedError("a loop that changes attributes of a module is not supported")
        ends = [self.caller.call("add", "int", [inside[0], 1]), inside[1], self.caller.number(again, "bool"), *results]
        body = [self.caller.traced(value).tensor for value in ends]
        types = [tensor_type_of(variable) for variable, _ in own]
        if [tensor_type_of(one) for one in body] != types:
            raise UnsupportedError("a loop whose tensors change their types or shapes is not supported")
        used = set(all_vars(Tuple(body)))
        passed = [(variable, outer[name].tensor) for name, (variable, _) in handed.items() if variable in used]
        return self._called(own, body, types, passed, begin, inside)[3:]

    def _called(self, own: Any, body: list[Expr], types: list[Any], passed: Any, begin: Any, inside: Any) -> list[Any]:
        params: list[Var] = [*(variable for variable, _ in own), *(variable for variable, _ in passed)]
        extra = [one for one in all_vars(Tuple(body)) if one not in params]
        params += extra
        name = GlobalVar(f"loop_{len(self.functions) + 1}")
        name.set_inferred_type(FuncType([tensor_type_of(param) for param in params], TupleType(types)))
        more = self.caller.call("lt", "int", [inside[0], inside[1]])
        test = self.caller.call(
            "logical_and", "", [Traced(more.expr, more.fake), Traced(inside[2].expr, inside[2].fake)]
        )
        rest = [variable for variable, _ in passed] + extra
        root = If(test.expr, Call(name, [*body, *rest]), Tuple([variable for variable, _ in own]))
        self.functions[name] = Function(params, root, TupleType(types))
        made = Call(name, [*(value.tensor for value in begin), *(expr for _, expr in passed), *extra])
        return [Traced(made[index], value.fake, value.kind) for index, value in enumerate(begin)]


def _same(one: Any, other: Any) -> bool:
    """True for known values, no tensors, that are equal."""
    if one is other:
        return True
    return is_known(one) and is_known(other) and not _has_tensor(one) and not _has_tensor(other) and one == other


def _has_tensor(value: Any) -> bool:
    return any(isinstance(leaf, torch.Tensor) for leaf in leaves(value))


def _parts(pair: tuple[Any, Any]) -> list[list[Any]]:
    """The tensors and numbers that two values of one kind are made of."""
    sides = [list(leaves(value)) for value in pair]
    fits = (len(sides[0]) == len(sides[1]) and type(pair[0]) is type(pair[1])) or all(
        isinstance(value, Traced | torch.Tensor | bool | int | float) for value in pair
    )
    known = all(isinstance(leaf, Traced | torch.Tensor | bool | int | float) for side in sides for leaf in side)
    if not fits or not known:
        raise UnsupportedError("the branches of an if return values that are neither equal nor tensors of one type")
    return sides


def _of_tensor(node: Any) -> bool:
    """True where the first argument is a tensor, whose operators have the names of those of lists."""
    first = next(iter(node.inputs()), None)
    return first is not None and str(first.type()) == "Tensor"


def _position(node: Any) -> str:
    return str(node.sourceRange()).strip().splitlines()[0][:80] if node.sourceRange() else "?"


_QUESTIONS: dict[str, Callable[..., Any]] = {
    "size": lambda fake, *axis: fake.shape[axis[0]] if axis else list(fake.shape),
    "sym_size": lambda fake, axis: fake.shape[axis], "dim": lambda fake: fake.dim(),
    "len": lambda fake: fake.shape[0], "numel": lambda fake: fake.numel(),
    "is_floating_point": lambda fake: fake.dtype.is_floating_point, "is_complex": lambda fake: fake.dtype.is_complex,
    "stride": lambda fake, *axis: fake.stride(*axis), "is_contiguous": lambda fake, *_: fake.is_contiguous(),
}  # fmt: skip


def _tensor_of(walker: Walker, value: Any) -> Any:
    return walker.caller.current(value).fake if isinstance(value, Traced) else value


def _set_attribute(walker: Walker, node: Any, given: Sequence[Any], _: Any) -> list[Any]:
    key = given[0].name(node.s("name"))
    walker.assign(key, given[1])
    return []


def _constant(_walker: Walker, node: Any, _given: Any, _values: Any) -> list[Any]:
    return [next(iter(node.outputs())).toIValue()]


def _raise(_walker: Walker, _node: Any, given: Sequence[Any], _values: Any) -> list[Any]:
    raise Raised(str(given[0]))


Special = Callable[[Walker, Any, Sequence[Any], dict[str, Any]], Sequence[Any]]

_SPECIAL: dict[str, Special] = {
    "prim::Constant": _constant,
    "prim::GetAttr": lambda walker, node, given, _: [walker.attribute(given[0], node.s("name"))],
    "prim::SetAttr": _set_attribute,
    "prim::If": lambda walker, node, given, values: walker.branch(node, given, values),
    "prim::Loop": lambda walker, node, given, values: walker.loop(node, given, values),
    "prim::RaiseException": _raise,
    "prim::Print": lambda *_: [],
    "prim::Uninitialized": lambda *_: [None],
    "prim::ListConstruct": lambda _w, _n, given, _v: [list(given)],
    "prim::TupleConstruct": lambda _w, _n, given, _v: [tuple(given)],
    "prim::DictConstruct": lambda _w, _n, given, _v: [dict(zip(given[::2], given[1::2]))],
    "prim::TupleUnpack": lambda _w, _n, given, _v: list(given[0]),
    "prim::ListUnpack": lambda _w, _n, given, _v: list(given[0]),
    "prim::TupleIndex": lambda _w, _n, given, _v: [given[0][given[1]]],
    "prim::unchecked_cast": lambda _w, _n, given, _v: [given[0]],
    "prim::unchecked_unwrap_optional": lambda _w, _n, given, _v: [given[0]],
    "aten::_unwrap_optional": lambda _w, _n, given, _v: [given[0]],
    "prim::data": lambda _w, _n, given, _v: [given[0]],
    "prim::NumToTensor": lambda walker, _n, given, _v: [
        Traced(given[0].expr, given[0].fake) if isinstance(given[0], Traced) else torch.tensor(given[0])
    ],
    "prim::dtype": lambda walker, _n, given, _v: [TYPE_NUMBERS[_tensor_of(walker, given[0]).dtype]],
    "prim::device": lambda *_: [torch.device("cpu")],
    "prim::layout": lambda *_: [0],
    "prim::is_cuda": lambda *_: [False],
    "prim::requires_grad": lambda *_: [False],
    "prim::shape": lambda walker, _n, given, _v: [list(_tensor_of(walker, given[0]).shape)],
    "prim::isinstance": lambda _w, node, given, _v: [_is_instance(node, given[0])],
}


def _is_instance(node: Any, value: Any) -> bool:
    names = [str(kind) for kind in node.tys("types")] if hasattr(node, "tys") else []
    kinds = {
        "int": int, "float": float, "bool": bool, "str": str, "Tensor": (torch.Tensor, Traced),
        "NoneType": type(None),
    }  # fmt: skip
    unknown = [name for name in names if name not in kinds]
    if unknown or not names:
        raise UnsupportedError(
            f"isinstance of {', '.join(unknown) or 'an unknown type'} in TorchScript is not supported"
        )
    return any(isinstance(value, kinds[name]) for name in names)  # type: ignore[arg-type]
