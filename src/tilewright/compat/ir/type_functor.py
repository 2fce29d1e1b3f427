"""`TypeFunctor`, `TypeVisitor`, `TypeMutator`: walkers of types that a classic program derives its own from."""

from __future__ import annotations

from typing import Any

from tilewright.relay.ir import type as t
from tilewright.relay.ir.adt import Constructor, TypeData

_METHODS = {
    t.TypeVar: "visit_type_var", t.IncompleteType: "visit_incomplete_type", t.TensorType: "visit_tensor_type",
    t.FuncType: "visit_func_type", t.TupleType: "visit_tuple_type", t.RefType: "visit_ref_type",
    t.GlobalTypeVar: "visit_global_type_var", t.TypeCall: "visit_type_call", TypeData: "visit_type_data",
}  # fmt: skip


def _unwritten(name: str) -> Any:
    def visit(self: Any, typ: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no method {name}")

    return visit


class TypeFunctor:
    """Dispatches `visit` to the method of the type's kind; each raises `NotImplementedError` until it is written."""

    def visit(self, typ: Any) -> Any:
        """The result of the method of the type's kind."""
        return getattr(self, _METHODS[type(typ)])(typ)


class TypeVisitor(TypeFunctor):
    """Visits the types within a type; override the methods of the kinds of interest."""

    def _visit_parts(self, typ: t.Type) -> None:
        for part in t.parts(typ):
            self.visit(part)

    def visit_func_type(self, ftype: t.FuncType) -> None:
        """The arguments, the result, the type variables."""
        for part in (*ftype.arg_types, ftype.ret_type, *ftype.type_params):
            self.visit(part)

    def visit_type_call(self, tc: t.TypeCall) -> None:
        """Visit the applied function, then its arguments."""
        for part in (tc.func, *tc.args):
            self.visit(part)

    def visit_type_data(self, td: TypeData) -> None:
        """The head, the type variables, the fields of the constructors."""
        for part in (td.header, *td.type_vars, *[kind for made in td.constructors for kind in made.inputs]):
            self.visit(part)


class TypeMutator(TypeFunctor):
    """Rebuild a type from the results of the methods of its parts."""

    def _rebuilt(self, typ: t.Type) -> t.Type:
        return t.with_parts(typ, tuple([self.visit(part) for part in t.parts(typ)]))

    def visit_func_type(self, ftype: t.FuncType) -> t.FuncType:
        """The function of the new arguments, result and type variables."""
        variables = tuple([self.visit(var) for var in ftype.type_params])
        return t.FuncType([self.visit(arg) for arg in ftype.arg_types], self.visit(ftype.ret_type), variables)

    def visit_type_call(self, tc: t.TypeCall) -> t.TypeCall:
        """The applied function on the new arguments."""
        return t.TypeCall(self.visit(tc.func), [self.visit(arg) for arg in tc.args])

    def visit_type_data(self, td: TypeData) -> TypeData:
        """The definition with constructors of the new fields."""
        made = [
            Constructor(one.name_hint, [self.visit(kind) for kind in one.inputs], one.belong_to)
            for one in td.constructors
        ]
        return TypeData(self.visit(td.header), [self.visit(var) for var in td.type_vars], made)


for _kind, _name in _METHODS.items():
    setattr(TypeFunctor, _name, _unwritten(_name))
    for _walker, _way in ((TypeVisitor, "_visit_parts"), (TypeMutator, "_rebuilt")):
        if _name not in vars(_walker):
            setattr(_walker, _name, getattr(_walker, _way))
