"""`TypeKind`: the kinds of type variables in the classic spelling."""

from tilewright.relay.type import Kind


class TypeKind:
    """What a type variable stands for: `TypeKind.Type` is any type."""

    Type = Kind.TYPE
    ShapeVar = Kind.SHAPE_VAR
    BaseType = Kind.BASE_TYPE
    Shape = Kind.SHAPE
    Constraint = Kind.CONSTRAINT
    AdtHandle = Kind.ADT_HANDLE
    TypeData = Kind.TYPE_DATA
