"""Relay text to modules and expressions: what `printer.astext` writes and what people write by hand.

    mod = parse('''
        #[version = "0.0.5"]
        def @main(%x: Tensor[(1, 4), float32]) { nn.relu(%x + 1f) }
    ''')

Grammar and examples: docs/relay.md. Errors are `ParseError`s with line and column, the position underlined.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import ml_dtypes
import numpy as np

from tilewright.errors import ParseError, TypeMismatchError, UnsupportedError
from tilewright.relay.ir.adt import (
    Clause,
    Constructor,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    TypeData,
)
from tilewright.relay.ir.attributes import complete
from tilewright.relay.ir.expr import (
    Attrs,
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from tilewright.relay.ir.json import load_metadata
from tilewright.relay.ir.lexer import Token, Tokens
from tilewright.relay.ir.literals import SUFFIXES
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.parse_types import TypeParser
from tilewright.relay.ir.registry import get
from tilewright.relay.ir.type import GlobalTypeVar
from tilewright.support.dtype import DType
from tilewright.support.recursion import nested
from tilewright.support.suggestion import suggestion

_METADATA = re.compile(r"^#\[metadata\]\s*$", re.MULTILINE)
#: Version 0.0.4 is written without brackets; what programs say is the same.
_HEADER = re.compile(r'\s*(?:#\[version = "([0-9.]+)"\]|v(0\.0\.4)\b)')


def parse(text: str, base: IRModule | None = None, constants: Sequence[Constant] = ()) -> IRModule:
    """The module that `text` describes, on top of `base`, whose functions and data types it may use.

    An expression behind (or instead of) the definitions becomes `main`. `constants` are what `meta[relay.Constant][0]`,
    `[1]` … name where the text has no metadata of its own. Raises ParseError.
    """
    parser = _parser(text, base)
    parser.constants = parser.constants or list(constants)
    return parser.module()


def parse_expr(text: str, base: IRModule | None = None) -> Expr:
    """The expression that `text` describes; `free_var %x: type;` lines declare free variables. Raises ParseError.

    Without `base` it may name any function: which ones there are is up to the module that it is put in.
    """
    parser = _parser(text, base)
    parser.names_any_function = base is None
    parser.free_variables()
    expr = parser.block()
    parser.tokens.expect_kind("end", "the end of the text")
    return expr


def call_positions(text: str) -> tuple[IRModule, dict[Expr, str]]:
    """The module that `text` describes, and where each of its calls begins, as "line:column". Raises ParseError."""
    parser = _parser(text, None)
    mod = parser.module()
    positions = {call: parser.tokens.line_and_column(start) for call, start in parser.positions.items()}
    return mod, {call: f"{line}:{column}" for call, (line, column) in positions.items()}


def fromtext(text: str) -> IRModule | Expr:
    """A module if `text` has definitions, an expression otherwise: the classic entry."""
    program = _Source(text).program
    definitions = re.search(r"^\s*(def|type|extern)\b", program, re.MULTILINE)
    return parse(text) if definitions else parse_expr(text)


class _Source:
    """A text taken apart: the program, its header blanked out, and the constants of its metadata."""

    def __init__(self, text: str) -> None:
        split = _METADATA.search(text)
        self.program = text if split is None else text[: split.start()]
        self.constants: list[Any] = []
        if split is not None:
            self.constants = load_metadata(text[split.end() :]).get("relay.Constant", [])
        header = _HEADER.match(self.program)
        if header is not None:
            if header.group(1) not in (None, "0.0.5"):
                raise ParseError(f"line 1: version {header.group(1)} of the text format is not known; this reads 0.0.5")
            self.program = " " * header.end() + self.program[header.end() :]


def _parser(text: str, base: IRModule | None) -> _Parser:
    source = _Source(text)
    return _Parser(Tokens(source.program), source.constants, base or IRModule())


class _Parser(TypeParser):
    """A parser by recursive descent. Names are looked up innermost scope first."""

    def __init__(self, tokens: Tokens, constants: list[Any], base: IRModule) -> None:
        super().__init__(tokens)
        self.constants = constants
        self.base = base
        self.globals = {gvar.name: gvar for gvar in base.functions}
        self.definitions: dict[GlobalTypeVar, TypeData] = dict(base.type_definitions)
        self.data_types = {header.name: header for header in base.type_definitions}
        self.constructors = {c.name: c for data in base.type_definitions.values() for c in data.constructors}
        self.scopes: list[dict[str, Expr]] = [{}]
        self.positions: dict[Expr, int] = {}
        self.names_any_function = False

    # --------------------------------------------------------------------------------------------------- modules
    def module(self) -> IRModule:
        """All definitions: first the data types, so that functions may use those that stand further down."""
        self._collect_names()
        start = self.tokens.position
        self._each("type", self._type_data)
        functions: dict[GlobalVar, Function] = dict(self.base.functions)
        self.tokens.position = start
        self._each("def", lambda: functions.update([self._definition()]))
        if self.tokens.next.kind != "end":
            self.free_variables()
            body = self.block()
            self.tokens.expect_kind("end", "the end of the text")
            return IRModule.from_expr(body, functions, self.definitions)
        return IRModule(functions, self.definitions)

    def _collect_names(self) -> None:
        position, own, types = self.tokens.position, set(), set()
        while self.tokens.next.kind != "end":
            keyword, name = self.tokens.take(), self.tokens.next
            if keyword.kind == "ident" and keyword.text == "def" and name.kind == "global":
                if name.text in own:
                    self.tokens.fail(f"@{name.text} is defined twice")
                own.add(name.text)
                self.globals[name.text] = GlobalVar(name.text)
            elif keyword.kind == "ident" and keyword.text == "type" and name.kind == "ident":
                if name.text in types:
                    self.tokens.fail(f"the data type {name.text} is defined twice")
                types.add(name.text)
                self.data_types[name.text] = GlobalTypeVar(name.text)
        self.tokens.position = position

    def _each(self, keyword: str, read: Callable[[], None]) -> None:
        """Read the definitions that begin with `keyword`, and skip the others."""
        while self.tokens.at("def", "type", "extern"):
            if self.tokens.at("extern"):  # a data type without constructors, read in both rounds
                self._type_data()
            elif self.tokens.at(keyword):
                read()
            else:
                self.tokens.skip_braces()

    def _type_data(self) -> None:
        outside = self.tokens.accept("extern")
        self.tokens.expect("type")
        header = self.data_types[self.tokens.expect_kind("ident", "the name of a data type").text]
        self.type_vars.append({})
        params = self.type_params()
        constructors: list[Constructor] = []
        others = [data for data in self.definitions.values() if data.header.name != header.name]
        own = {c.name: data.header for data in others for c in data.constructors}

        def constructor() -> None:
            token = self.tokens.expect_kind("ident", "a constructor")
            if any(c.name == token.text for c in constructors):
                self.tokens.fail(f"{header} has two constructors {token.text}", token.start, token.end)
            if token.text in own:
                self.tokens.fail(f"{own[token.text]} has a constructor {token.text}, too", token.start, token.end)
            fields = self.sequence("(", self.type, ")") if self.tokens.at("(") else []
            constructors.append(Constructor(token.text, fields, header, len(constructors)))

        if not outside:
            self.sequence("{", constructor, "}")
        self.type_vars.pop()
        self.definitions[header] = TypeData(header, params, constructors)
        self.constructors.update({c.name: c for c in constructors})

    def _definition(self) -> tuple[GlobalVar, Function]:
        self.tokens.expect("def")
        token = self.tokens.expect_kind("global", "the name of a function, as @main,")
        return self.globals[token.text], self._function()

    def free_variables(self) -> None:
        """`free_var %x: type;` lines."""
        while self.tokens.accept("free_var"):
            self._parameter()
            self.tokens.expect(";")

    # ------------------------------------------------------------------------------------------ functions, blocks
    def _function(self) -> Function:
        """The function after `fn` or `def @name`."""
        self.type_vars.append({})
        self.scopes.append({})
        type_params = self.type_params()
        attrs: dict[str, Any] = {}
        params: list[Var] = []

        def item() -> None:
            if self.tokens.next.kind == "local":
                params.append(self._parameter())
            else:
                attrs.update([self.named_attr()])

        self.sequence("(", item, ")")
        ret_type = self.type() if self.tokens.accept("->") else None
        body = self._braces()
        self.scopes.pop()
        self.type_vars.pop()
        return Function(params, body, ret_type, type_params, attrs)

    def _parameter(self) -> Var:
        token = self.tokens.expect_kind("local", "a variable, as %x,")
        var = Var(token.text, self.type() if self.tokens.accept(":") else None)
        self.scopes[-1][f"%{var.name}"] = var
        return var

    def _braces(self) -> Expr:
        self.tokens.expect("{")
        self.scopes.append({})
        body = self.block()
        self.scopes.pop()
        self.tokens.expect("}")
        return body

    def block(self) -> Expr:
        """Bindings, then the result; `let` in a loop, for there may be thousands."""
        bound: list[tuple[Var, Expr]] = []
        while True:
            if self.tokens.accept("let"):
                bound.append(self._let())
            elif self.tokens.next.kind == "graph" and self.tokens.peek().text == "=":
                name = f"%{self.tokens.take().text}"
                self.tokens.expect("=")
                self.scopes[-1][name] = self.expr()
            else:
                result = self.expr()
                if not self.tokens.at(";"):
                    break
                bound.append((Var("_"), result))
            self.tokens.expect(";")
        for var, value in reversed(bound):
            result = Let(var, value, result)
        return result

    def _let(self) -> tuple[Var, Expr]:
        token = self.tokens.expect_kind("local", "a variable, as %x,")
        var = Var(token.text, self.type() if self.tokens.accept(":") else None)
        self.tokens.expect("=")
        if self.tokens.at("fn"):
            self.scopes[-1][f"%{var.name}"] = var
        value = self.expr()
        self.scopes[-1][f"%{var.name}"] = var
        return var, value

    # ------------------------------------------------------------------------------------------------- expressions
    @nested
    def expr(self, level: int = 0) -> Expr:
        """An expression; `level` is the strength of the operators around it."""
        if level == len(_INFIX):
            return self._postfix()
        left = self.expr(level + 1)
        while self.tokens.next.kind == "punct" and self.tokens.next.text in _INFIX[level]:
            name = _INFIX[level][self.tokens.take().text]
            left = Call(get(name), (left, self.expr(level + 1)))
        return left

    def _postfix(self) -> Expr:
        token = self.tokens.next
        if token.kind == "ident" and token.text not in _KEYWORDS and token.text not in self.constructors:
            value = self._operator_call(self.tokens.take())
        else:
            value = self._atom()
        while True:
            if self.tokens.at("("):
                args, attrs = self._arguments()
                value = self._placed(Call(value, args, Attrs(attrs)), token)
            elif self.tokens.next.kind == "field":
                value = TupleGetItem(value, int(self.tokens.take().text))
            elif isinstance(value, Constructor) and not value.inputs and token.text != "constructor":
                return Call(value, ())
            else:
                return value

    def _operator_call(self, token: Token) -> Expr:
        try:
            op = get(token.text)
        except UnsupportedError as error:
            if token.text.startswith(("inf", "nan")) and token.text[3:] in SUFFIXES:
                return _constant(token.text[:3], token.text[3:])
            self.tokens.fail(f"{error}, and no constructor of that name", token.start, token.end)
        if self.tokens.next.kind == "end":  # the operator itself is the program
            return op  # type: ignore[return-value]
        args, attrs = self._arguments()
        try:
            return self._placed(Call(op, args, complete(op.name, op.attributes, attrs)), token)
        except TypeMismatchError as error:
            self.tokens.fail(str(error), token.start, token.end)

    def _arguments(self) -> tuple[list[Expr], dict[str, Any]]:
        """The arguments and attributes of a call in parentheses."""
        args: list[Expr] = []
        attrs: dict[str, Any] = {}

        def item() -> None:
            if self.tokens.next.kind == "ident" and self.tokens.peek().text == "=":
                attrs.update([self.named_attr()])
            else:
                args.append(self.expr())

        self.sequence("(", item, ")")
        return args, attrs

    def _placed(self, call: Call, token: Token) -> Call:
        """`call`, which begins at `token`; its position is kept."""
        self.positions[call] = token.start
        return call

    def _atom(self) -> Expr:
        token = self.tokens.next
        read = _ATOMS.get(token.kind) or _ATOMS.get(token.text)
        if read is None:
            self.tokens.fail(f"an expression is expected here, not {token.text!r}")
        return read(self)

    def _variable(self) -> Expr:
        token = self.tokens.take()
        name = f"%{token.text}"
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        self._unknown(name, {known: None for scope in self.scopes for known in scope}, token)

    def _global(self) -> Expr:
        token = self.tokens.take()
        if token.text in self.globals:
            return self.globals[token.text]
        if self.names_any_function:
            return self.globals.setdefault(token.text, GlobalVar(token.text))
        self._unknown(f"@{token.text}", {f"@{known}": None for known in self.globals}, token)

    def _unknown(self, name: str, known: Mapping[str, None], token: Token) -> NoReturn:
        self.tokens.fail(f"{name} is not defined{suggestion(name, known)}", token.start, token.end)

    def _number(self) -> Expr:
        negative = False
        while self.tokens.accept("-"):
            negative = not negative
        token = self.tokens.take()
        sign = "-" if negative else ""
        if token.kind == "ident" and token.text.startswith(("inf", "nan")) and token.text[3:] in SUFFIXES:
            return _constant(sign + token.text[:3], token.text[3:])
        if token.kind != "number":
            self.tokens.fail("a number is expected behind the minus sign", token.start, token.end)
        digits = token.text[: len(token.text) - len(token.suffix)]
        default = "f" if "." in digits or "e" in digits.lower() else ""
        suffix = "f" if token.suffix == "f32" else token.suffix or default
        if "." in digits and not DType(SUFFIXES.get(suffix, "int32")).is_float:
            self.tokens.fail(f"{token.text} is no integer", token.start, token.end)
        try:
            return _constant(sign + digits, suffix or _INTEGERS[not -_LARGEST - 1 <= int(sign + digits) <= _LARGEST])
        except OverflowError:
            self.tokens.fail(f"{sign}{token.text} does not fit its data type", token.start, token.end)

    def _parenthesis(self) -> Expr:
        self.tokens.expect("(")
        if self.tokens.accept(")"):
            return Tuple(())
        if self.tokens.at("let"):
            self.scopes.append({})
            inner = self.block()
            self.scopes.pop()
            self.tokens.expect(")")
            return inner
        fields = [self.expr()]
        while self.tokens.accept(","):
            if self.tokens.at(")"):
                self.tokens.expect(")")
                return Tuple(fields)
            fields.append(self.expr())
        self.tokens.expect(")")
        return fields[0] if len(fields) == 1 else Tuple(fields)

    def _word(self) -> Expr:
        """An expression that begins with a keyword, or a constructor."""
        token = self.tokens.take()
        read = _WORDS.get(token.text)
        if read is not None and token.text not in self.constructors:
            return read(self)
        if token.text not in self.constructors:
            self.tokens.fail(f"{token.text!r} begins no expression", token.start, token.end)
        return self.constructors[token.text]

    def _constructor(self) -> Expr:
        """`constructor(Nil)`: the constructor as a value, where `Nil` alone is what it makes."""
        self.tokens.expect("(")
        token = self.tokens.expect_kind("ident", "a constructor")
        if token.text not in self.constructors:
            self._unknown(token.text, dict.fromkeys(self.constructors), token)
        self.tokens.expect(")")
        return self.constructors[token.text]

    def _truth(self, value: bool) -> Expr:
        return Constant(np.asarray(value))

    def _if(self) -> Expr:
        self.tokens.expect("(")
        cond = self.expr()
        self.tokens.expect(")")
        true = self._braces()
        self.tokens.expect("else")
        return If(cond, true, self._word() if self.tokens.at("if") else self._braces())

    def _match(self) -> Expr:
        complete = not self.tokens.accept("?")
        data = self.expr()
        clauses = self.sequence("{", self._clause, "}")
        return Match(data, clauses, complete)

    def _clause(self) -> Clause:
        self.scopes.append({})
        pattern = self._pattern()
        self.tokens.expect("=>")
        clause = Clause(pattern, self.expr())
        self.scopes.pop()
        return clause

    def _pattern(self) -> Pattern:
        if self.tokens.accept("_"):
            return PatternWildcard()
        if self.tokens.next.kind == "local":
            return PatternVar(self._parameter())
        if self.tokens.at("("):
            return PatternTuple(self.sequence("(", self._pattern, ")"))
        token = self.tokens.expect_kind("ident", "a pattern")
        if token.text not in self.constructors:
            self._unknown(token.text, dict.fromkeys(self.constructors), token)
        fields = self.sequence("(", self._pattern, ")") if self.tokens.at("(") else []
        return PatternConstructor(self.constructors[token.text], fields)

    def _reference(self, make: Callable[..., Expr], arity: int) -> Expr:
        token = self.tokens.next
        args = self.sequence("(", self.expr, ")")
        if len(args) != arity:
            self.tokens.fail(f"{arity} operands are needed here, not {len(args)}", token.start, token.end)
        return make(*args)

    def _meta(self) -> Expr:
        self.tokens.expect("[")
        self.tokens.expect("relay.Constant")
        self.tokens.expect("]")
        self.tokens.expect("[")
        token = self.tokens.expect_kind("number", "the number of a constant")
        self.tokens.expect("]")
        if int(token.text) >= len(self.constants):
            self.tokens.fail("the text has no such constant in its metadata section", token.start, token.end)
        constant = self.constants[int(token.text)]
        assert isinstance(constant, Constant)
        return constant

    def _left_out(self) -> Expr:
        self.tokens.fail("the contents of this constant are not in the text; write the program by astext, or as JSON")


#: The suffixes that whole numbers without one have: those beyond the largest of 32 bits are of 64.
_INTEGERS, _LARGEST = ("i32", "i64"), 2**31 - 1


def _constant(digits: str, suffix: str) -> Constant:
    """A scalar. Raises `OverflowError` for a number that its data type has no value near to."""
    dtype = DType(SUFFIXES.get(suffix, "int32"))
    if dtype.is_float:
        number = float(digits)
        if np.isfinite(number) and abs(number) > float(ml_dtypes.finfo(dtype.numpy).max):
            raise OverflowError
        return Constant(np.asarray(number).astype(dtype.numpy))
    return Constant(np.asarray(int(digits), dtype.numpy))


#: Infix operators, the weakest first.
_INFIX: list[dict[str, str]] = [
    {"==": "equal", "!=": "not_equal"},
    {"<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal"},
    {"+": "add", "-": "subtract"},
    {"*": "multiply", "/": "divide"},
]

_WORDS: dict[str, Callable[[_Parser], Expr]] = {
    "fn": _Parser._function,
    "if": _Parser._if,
    "match": _Parser._match,
    "meta": _Parser._meta,
    "const": _Parser._left_out,
    "constructor": _Parser._constructor,
    "ref": lambda parser: parser._reference(RefCreate, 1),
    "ref_read": lambda parser: parser._reference(RefRead, 1),
    "ref_write": lambda parser: parser._reference(RefWrite, 2),
    "True": lambda parser: parser._truth(True),
    "False": lambda parser: parser._truth(False),
}

_KEYWORDS = {*_WORDS, "let", "else", "def", "type", "free_var"}

_ATOMS: dict[str, Callable[[_Parser], Expr]] = {
    "local": _Parser._variable,
    "graph": _Parser._variable,
    "global": _Parser._global,
    "number": _Parser._number,
    "-": _Parser._number,
    "(": _Parser._parenthesis,
    "{": _Parser._braces,
    "ident": _Parser._word,
}
