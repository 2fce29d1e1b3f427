"""Text that Debian's packages ship, as tokens: manuals (man, info) and documents, split by file into two parts.

Paragraphs that stand in several files count once, so that no paragraph held out was trained on; files are taken in the
order of a hash of their path. Logs of changes, licences and translations are left out.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

Array = np.ndarray[Any, Any]
ROOTS = ("/usr/share/man", "/usr/share/info", "/usr/share/doc")
VOCABULARY = 4096
#: Characters of text in all, and of one file at most; files of one family (git-*, perl*) at most.
_WHOLE, _FILE, _FAMILY = 24_000_000, 60_000, 60
#: One file in so many is held out.
_HELD_OUT = 20
_LEFT_OUT = re.compile(r"changelog|copyright|authors|thanks|\.ps|\.pdf|\.tar|\.png|\.json|all\.html|licen[cs]e", re.I)
_MACRO = re.compile(r"^[.'](\w+|\\\")[ \t]*(.*)$")
_SHOWN = {
    "SH",
    "SS",
    "B",
    "I",
    "BR",
    "IR",
    "RB",
    "RI",
    "BI",
    "IB",
    "TP",
    "IP",
    "Sh",
    "Ss",
    "Nm",
    "Fl",
    "Ar",
    "It",
    "Xr",
}
_ESCAPES = (
    (re.compile(r"\\f(\[\w*\]|\(..|.)|\\s[-+]?\d+|\\[&|^/,)!%:~c]"), ""), (re.compile(r"\\[-\s]"), "-"),
    (re.compile(r"\\\((aq|cq|oq)|\\\*\(Aq"), "'"), (re.compile(r"\\\((lq|rq|dq)|\\\*[\(]?[LR]\"?"), '"'),
    (re.compile(r"\\e|\\\(rs"), "\\\\"), (re.compile(r"\\\(em|\\\*\(--"), "--"), (re.compile(r"\\\(en"), "-"),
    (re.compile(r"\\\(..|\\\[[^\]]*\]|\\\*(\(..|.)"), ""),
)  # fmt: skip


def files() -> list[Path]:
    """The files to read, in the order of a hash of their path, few of each family."""
    found = [
        path
        for root in ROOTS
        for path in Path(root).rglob("*")
        if path.is_file() and not path.is_symlink() and not _LEFT_OUT.search(str(path))
        and (not str(path).startswith("/usr/share/man/") or re.fullmatch(r"man\d", path.parent.name))
        and (path.suffix in (".gz", ".txt", ".md", ".rst") or path.name.startswith(("README", "NEWS")))
    ]  # fmt: skip
    found.sort(key=lambda path: _hash(str(path)))
    seen: Counter[str] = Counter()
    kept = []
    for path in found:
        family = re.split(r"[-_.:\d]", path.name)[0] + path.parent.name
        seen[family] += 1
        if seen[family] <= _FAMILY:
            kept.append(path)
    return kept


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def plain(path: Path) -> str:
    """The text of a file; manual pages without the commands of troff. Empty where it is no text."""
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        text = raw[: 4 * _FILE].decode("utf-8", "strict" if len(raw) <= 4 * _FILE else "ignore")
    except (OSError, EOFError, UnicodeDecodeError, gzip.BadGzipFile):
        return ""
    if "/man/" in str(path):
        text = "\n".join(_without_macros(text.splitlines()))
        for pattern, put in _ESCAPES:
            text = pattern.sub(put, text)
    if sum(character > "\x7f" for character in text) * 20 > len(text):
        return ""
    return text[:_FILE]


def _without_macros(lines: list[str]) -> Iterator[str]:
    definition = False
    for line in lines:
        if definition or re.match(r"^[.'] *(de|ie|el|if|ig)\b", line):
            definition = not line.startswith("..") and (definition or bool(re.match(r"^[.'] *(de|ig)\b", line)))
            continue
        macro = _MACRO.match(line)
        if macro is None:
            if not line.startswith((".", "'")):
                yield line
        elif macro[1] in _SHOWN and macro[2]:
            head = "\n" if macro[1] in ("SH", "SS", "Sh", "Ss") else ""
            yield head + macro[2].replace('"', "")
        elif macro[1] in ("PP", "P", "LP", "Pp", "sp"):
            yield ""


def texts() -> tuple[list[str], list[str]]:
    """The texts of files to train on and of those held out, without paragraphs that came before."""
    parts: tuple[list[str], list[str]] = ([], [])
    seen: set[int] = set()
    size = 0
    for path in files():
        fresh = []
        for paragraph in re.split(r"\n\s*\n", plain(path)):
            known = _hash(" ".join(paragraph.split()))
            if known not in seen:
                seen.add(known)
                fresh.append(paragraph.rstrip())
        text = "\n\n".join(fresh)
        if len(text) > 500:
            parts[_hash(str(path) + " part") % _HELD_OUT == 0].append(text)
            size += len(text)
        if size > _WHOLE:
            break
    return parts


def tokens(folder: Path) -> tuple[Array, Array]:
    """Tokens to train on and held out, uint16, kept in `folder` with their vocabulary."""
    path = folder / "tokens.npz"
    if not path.exists():
        train, held_out = texts()
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        special = ["<|end|>"]
        trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=special, initial_alphabet=alphabet)
        tokenizer.train_from_iterator(train[::3], trainer)
        tokenizer.save(str(folder / "tokenizer.json"))
        coded = [
            np.concatenate([np.array([*one.ids, 0], np.uint16) for one in tokenizer.encode_batch(part)])
            for part in (train, held_out)
        ]
        np.savez(
            path, train=coded[0], held_out=coded[1], bytes=[sum(len(t.encode()) for t in p) for p in (train, held_out)]
        )
        print(f"{len(train)} files, {len(coded[0])} tokens to train on; {len(held_out)}, {len(coded[1])} held out")
    with np.load(path) as found:
        return found["train"], found["held_out"]
