"""Device placement: values move where `on_device` says that the next step runs elsewhere.

Before: add(on_device(exp(%x), device="cuda(0)"), %y)                                                 (default: cpu(0))
After:  add(device_copy(exp(device_copy(%x, "cpu(0)", "cuda(0)")), "cuda(0)", "cpu(0)"), %y)

`on_device(e, d)` says that `e` is computed on `d`. A call runs where its arguments are, and arguments are where the
call runs, across all calls that no `on_device` parts; what nothing decides is on the default device. Parameters are
there too.
"""

from __future__ import annotations

from tilewright.errors import TypeMismatchError
from tilewright.relay.ir.expr import Call, Constant, Expr, Tuple, TupleGetItem, Var
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.visitor import children, post_order, rebuild
from tilewright.relay.op.annotation import device_copy
from tilewright.relay.transform.simplify.make import is_call


def plan_devices(mod: IRModule, default_device: str = "cpu(0)") -> IRModule:
    """Replace `on_device` by copies between devices; see the module's docstring.

    Raises `TypeMismatchError` where one value is required on two devices at once.
    """
    mod = infer_type(mod)
    return infer_type(mod.map_functions(lambda func: func.with_body(_position(func.body, str(default_device)))))


def _position(root: Expr, default: str) -> Expr:
    nodes = post_order(root)
    if not any(is_call(node, "on_device") for node in nodes):
        return root
    devices = _Devices(default)
    for node in nodes:
        devices.constrain(node)
    return devices.rewritten(nodes)


class _Devices:
    """Groups of nodes that are on one device, and the device of each group that is known."""

    def __init__(self, default: str) -> None:
        self.default = default
        self.group: dict[Expr, Expr] = {}
        self.known: dict[Expr, str] = {}

    def find(self, node: Expr) -> Expr:
        """The representative of the group of `node`."""
        while self.group.get(node, node) is not node:
            node = self.group[node]
        return node

    def device(self, node: Expr) -> str:
        """The device of `node`."""
        return self.known.get(self.find(node), self.default)

    def constrain(self, node: Expr) -> None:
        """Take in what `node` says of itself and its operands."""
        if is_call(node, "on_device"):
            assert isinstance(node, Call)
            self._fix(node.args[0], node.attrs.device)
        elif isinstance(node, Var):
            self._fix(node, self.default)
        elif not is_call(node, "device_copy"):
            for kid in children(node):
                if not is_call(kid, "on_device", "device_copy") and not isinstance(kid, Var | Constant):
                    self._join(node, kid)

    def _fix(self, node: Expr, device: str) -> None:
        if isinstance(node, Var) and device != self.default:
            return
        group = self.find(node)
        before = self.known.setdefault(group, device)
        if before != device:
            name = getattr(getattr(node, "op", None), "name", type(node).__name__)
            raise TypeMismatchError(
                f"{name} is annotated for both {device} and {before}; separate them by an on_device"
            )

    def _join(self, a: Expr, b: Expr) -> None:
        a, b = self.find(a), self.find(b)
        if a is b:
            return
        self.group[b] = a
        if b in self.known:
            self._fix(a, self.known.pop(b))

    def rewritten(self, nodes: list[Expr]) -> Expr:
        """The last of `nodes` with copies where an operand is on another device than its reader."""
        fresh: dict[Expr, Expr] = {}
        copies: dict[tuple[Expr, str], Expr] = {}

        def value_on(kid: Expr, device: str) -> Expr:
            source = kid
            while is_call(source, "on_device"):
                (source,) = children(source)
            where = self.device(source)
            if where == device or isinstance(source, Constant):
                return fresh[source]
            key = (source, device)
            if key not in copies:
                copies[key] = device_copy(fresh[source], where, device)
            return copies[key]

        for node in nodes:
            if is_call(node, "on_device"):
                fresh[node] = fresh[children(node)[0]]
            elif isinstance(node, Call | Tuple | TupleGetItem):
                fresh[node] = rebuild(node, tuple([value_on(kid, self.device(node)) for kid in children(node)]))
            else:
                fresh[node] = rebuild(node, tuple([fresh[kid] for kid in children(node)]))
        return fresh[nodes[-1]]
