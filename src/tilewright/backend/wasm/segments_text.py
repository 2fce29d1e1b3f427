"""The function by which a module runs one segment of an interpreted program, as LLVM IR text.

    i32 tilewright_program__entry(slots, ctx)       0 or the code of a failed check

The number of the segment lies before the slots, where all workers find it.
"""

from __future__ import annotations

from collections.abc import Sequence


def segments_text(symbols: Sequence[str], entry: str) -> str:
    """The text for the entries of all segments, by their numbers."""
    cases = " ".join(f"i32 {number}, label %l{number}" for number in range(len(symbols)))
    calls = [
        f"l{number}:\n  %c{number} = call i32 @{symbol}(ptr %slots, ptr %ctx)\n  ret i32 %c{number}"
        for number, symbol in enumerate(symbols)
    ]
    return "\n".join(
        [
            *[f"declare i32 @{symbol}(ptr, ptr)" for symbol in dict.fromkeys(symbols)],
            f"define i32 @{entry}__entry(ptr %slots, ptr %ctx) {{",
            "  %number.p = getelementptr i64, ptr %slots, i32 -1",
            "  %number = load i32, ptr %number.p",
            f"  switch i32 %number, label %none [ {cases} ]",
            *calls,
            "none:\n  ret i32 0\n}\n",
        ]
    )
