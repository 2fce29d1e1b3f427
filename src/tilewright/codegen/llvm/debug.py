"""DWARF line tables: which line of which file each instruction was made of, as LLVM's debug metadata.

A function of the loop IR is a subprogram that begins where its first statement was written; instructions of other files
stand in a lexical block of their file. See LLVM's "Source Level Debugging".
"""

from __future__ import annotations

from pathlib import PurePath

from tilewright.tir.position import Position
from tilewright.tir.stmt import PrimFunc
from tilewright.tir.transform.statements import walk

_DW_LANG_PYTHON = "DW_LANG_Python"


class DebugInfo:
    """The debug metadata of one module, appended to its list of `metadata`."""

    def __init__(self, metadata: list[str]) -> None:
        self._metadata = metadata
        self._known: dict[str, str] = {}
        self.unit = ""
        self._flags = [
            self._node('!{i32 7, !"Dwarf Version", i32 4}'),
            self._node('!{i32 2, !"Debug Info Version", i32 3}'),
        ]

    def _node(self, text: str) -> str:
        """A reference to the node `text`, made once."""
        found = self._known.get(text)
        if found is None:
            found = self._known[text] = f"!{len(self._metadata)}"
            self._metadata.append(text)
        return found

    def _file(self, path: str) -> str:
        pure = PurePath(path)
        return self._node(f"!DIFile(filename: {_quoted(pure.name)}, directory: {_quoted(str(pure.parent))})")

    def begin(self, func: PrimFunc) -> FunctionLines | None:
        """The lines of a function; None where no statement of it has a position."""
        first = next((stmt.position for stmt in walk(func.body) if stmt.position is not None), None)
        if first is None:
            return None
        file = self._file(first.file)
        if not self.unit:
            self.unit = self._node(
                f"distinct !DICompileUnit(language: {_DW_LANG_PYTHON}, file: {file}, "
                'producer: "tilewright", isOptimized: true, runtimeVersion: 0, emissionKind: FullDebug)'
            )
        kind = self._node(f"!DISubroutineType(types: {self._node('!{null}')})")
        subprogram = self._node(
            f"distinct !DISubprogram(name: {_quoted(func.name)}, linkageName: {_quoted(func.name)}, scope: {file}, "
            f"file: {file}, line: {first.line}, type: {kind}, scopeLine: {first.line}, "
            f"spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: {self.unit})"
        )
        return FunctionLines(self, subprogram, first)

    def named(self) -> list[str]:
        """The module's named metadata; none if no function has lines."""
        if not self.unit:
            return []
        return [f"!llvm.dbg.cu = !{{{self.unit}}}", f"!llvm.module.flags = !{{{', '.join(self._flags)}}}"]


class FunctionLines:
    """The lines of one function: `subprogram` is its node, `first` where it begins."""

    def __init__(self, info: DebugInfo, subprogram: str, first: Position) -> None:
        self._info, self.subprogram, self.first = info, subprogram, first

    def attachment(self, position: Position) -> str:
        """The debug attachment of an instruction that was made of the line at `position`."""
        node, scope = self._info._node, self.subprogram
        if position.file != self.first.file:
            file = self._info._file(position.file)
            scope = node(f"!DILexicalBlockFile(scope: {scope}, file: {file}, discriminator: 0)")
        return f", !dbg {node(f'!DILocation(line: {position.line}, column: 0, scope: {scope})')}"


def _quoted(text: str) -> str:
    """A metadata string: quotes, backslashes and what is not ASCII as hexadecimal escapes."""
    plain = "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\' else f"\\{b:02X}" for b in text.encode())
    return f'"{plain}"'
