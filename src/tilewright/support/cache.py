"""The disk cache: bytes or whole files under a key, written atomically, bounded in size, least recently used out first.

Entries live at ``DIRECTORY/tilewright-cache/KIND/KEY`` (KIND one of `KINDS`, KEY a digest made by `digest`), so that
DIRECTORY may hold other things. Several processes may share it: an entry appears by an atomic rename, so a reader sees
all of it or nothing, and an entry that another process evicts while it is mapped stays readable. A hit renews the
entry's modification time, by which eviction goes.

Entries are code that will be run. So each ends in a trailer that names the kind and key it was written for and has a
checksum of its contents: what is damaged, or under another key, is no entry. Neither an entry nor its directories may
belong to another user (but root) or be writable to everybody: those are not read, with one warning (docs/security.md).
Only files with such a trailer are listed, counted, evicted and cleared; whatever else is there is left alone.

Where the user named the directory (argument or TILEWRIGHT_CACHE_DIR) and it cannot be written, `open_cache` raises
`EnvironmentError_`. Where only the default directory is unusable, one warning is given and nothing is cached.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import stat
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tilewright.errors import EnvironmentError_, UserError
from tilewright.support import knobs
from tilewright.support.log import DEBUG, log


def digest(*parts: str | bytes) -> str:
    """A stable key of all `parts`: 40 hexadecimal characters. The boundaries between the parts count."""
    state = hashlib.blake2b(digest_size=20)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.hexdigest()


#: The kinds of entries, and whether their contents have checksums of their own, which their reader compares.
KINDS = {"artifact": True, "digest": False, "machine": False, "native": False, "vta": False, "vta-rtl": False}

#: The subdirectory of a cache directory in which all entries are.
SUBDIRECTORY = "tilewright-cache"

#: What an entry ends in: a mark, the checksum of its contents, and the digest of its kind and key and that checksum.
_MARK = b"\nTWCACHE\x02"
_SUM_BYTES = 16
TRAILER_BYTES = len(_MARK) + _SUM_BYTES + 20
_UNCHECKED = bytes(_SUM_BYTES)


def _trailer(kind: str, key: str, checksum: bytes) -> bytes:
    return _MARK + checksum + bytes.fromhex(digest(kind, key, checksum))


def _checksum(file: BinaryIO, length: int) -> bytes:
    """The checksum of the first `length` bytes of a file. The file's position is moved."""
    state = hashlib.blake2b(digest_size=_SUM_BYTES)
    file.seek(0)
    while length > 0 and (piece := file.read(min(length, 1 << 20))):
        state.update(piece)
        length -= len(piece)
    return state.digest()


def _own_checksum(file: BinaryIO, kind: str, key: str) -> bytes | None:
    """The checksum in the trailer of an entry that was written for `kind` and `key`; None for any other file."""
    length = content_length(file)
    file.seek(length)
    trailer = file.read(TRAILER_BYTES + 1)
    checksum = trailer[len(_MARK) :][:_SUM_BYTES]
    return checksum if trailer == _trailer(kind, key, checksum) else None


def content_length(file: BinaryIO) -> int:
    """The bytes of a file without the trailer of a cache entry, where it is one. The file's position is moved."""
    length = os.fstat(file.fileno()).st_size
    if length < TRAILER_BYTES:
        return length
    file.seek(length - TRAILER_BYTES)
    return length - TRAILER_BYTES if file.read(len(_MARK)) == _MARK else length


#: Where Linux has the open files of this process, those without a name too; and those that are temporary files of ours.
_DESCRIPTORS = Path("/proc/self/fd")
_temporaries: set[int] = set()


def descriptor_of(path: Path) -> int | None:
    """The open file of this process that a path such as ``/dev/stdout`` or ``/proc/self/fd/1`` names; else None."""
    named = {"/dev/stdout": "1", "/dev/stderr": "2"}.get(str(path))
    if str(path.parent) in ("/dev/fd", str(_DESCRIPTORS), f"/proc/{os.getpid()}/fd"):
        named = path.name
    return int(named) if named is not None and named.isdecimal() else None


@contextmanager
def atomic_file(path: Path, durable: bool = True, mode: int = 0o666) -> Iterator[Path]:
    """Yield the path of a temporary file; on success it becomes `path`, on any exception it is removed.

    What a link leads to is replaced rather than the link; a device, a pipe or an open file of this process
    (``/dev/stdout``) is never replaced, but written into. The file has no name until it is whole, where the file system
    can do that: not even a killed process leaves any of it.

    With `durable` the file is flushed to disk before it gets its name, so that even a crash of the machine leaves the
    old file or the new one, never a torn one.
    """
    descriptor = descriptor_of(path)
    if descriptor in _temporaries:  # of another call of this function
        yield path
        return
    special = descriptor is not None or (path.exists() and not path.is_file())
    path = path if special else Path(os.path.realpath(path))
    with _temporary_file(None if special else path.parent, path.name, mode) as (handle, temporary):
        yield temporary
        if special:
            position = path if descriptor is None else os.dup(descriptor)
            with temporary.open("rb") as made, open(position, "wb", buffering=0) as sink:
                shutil.copyfileobj(made, sink)
            return
        if durable:
            os.fsync(handle)
        if temporary.parent == _DESCRIPTORS:
            _commit_name(temporary, handle, path, mode)
        else:
            os.replace(temporary, path)


@contextmanager
def _temporary_file(position: Path | None, name: str, mode: int) -> Iterator[tuple[int, Path]]:
    """A new file in the folder `position`, None for any: its descriptor and its path, without a name where that
    can be.
    """
    handle = None if position is None else _open_nameless(position)
    if handle is None:
        handle, made = tempfile.mkstemp(prefix=f".{name[:40]}.", suffix=".tmp", dir=position)
        temporary = Path(made)
    else:
        temporary = _DESCRIPTORS / str(handle)
    _temporaries.add(handle)
    try:
        os.chmod(temporary, mode & ~_umask())
        yield handle, temporary
    finally:
        _temporaries.discard(handle)
        with suppress(OSError):  # gone where it was renamed; a descriptor cannot be removed
            temporary.unlink()
        os.close(handle)


def _open_nameless(position: Path) -> int | None:
    """A file in a folder that has no name and is gone when it is closed; None where there are no such files."""
    flag = getattr(os, "O_TMPFILE", None)
    if flag is None or not _DESCRIPTORS.is_dir():
        return None
    try:
        return os.open(position, os.O_RDWR | flag, 0o600)
    except OSError:
        return None


def _commit_name(temporary: Path, handle: int, path: Path, mode: int) -> None:
    """Put a file without a name at `path`. One that is there is replaced by way of a name beside it."""
    try:
        # a directory is named so that the system call is the one which follows links
        os.link(temporary, path, src_dir_fd=handle, follow_symlinks=True)
        return
    except OSError:
        pass
    beside = path.with_name(f".{path.name[:40]}.{secrets.token_hex(6)}.tmp")
    try:
        try:
            os.link(temporary, beside, src_dir_fd=handle, follow_symlinks=True)
        except OSError:  # the system lets nobody do that
            shutil.copyfile(temporary, beside)
            os.chmod(beside, mode & ~_umask())
        os.replace(beside, path)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise


def _umask() -> int:
    """The process's file mode mask; it can only be read by setting it (files from mkstemp start at 0600)."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


@dataclass(frozen=True)
class Entry:
    """One file that the cache wrote: its kind and key, its bytes, and when it was used last (seconds since 1970)."""

    kind: str
    key: str
    path: Path
    bytes: int
    used: float


class DiskCache:
    """A cache in one directory. `directory` None is a cache that holds nothing."""

    def __init__(self, directory: Path | None, max_bytes: int | None = None) -> None:
        self.directory = directory
        self.max_bytes = knobs.CACHE_SIZE.get() if max_bytes is None else max_bytes
        self._known_bytes: int | None = None

    def find(self, kind: str, key: str) -> Path | None:
        """The path of an entry, its use renewed, or None."""
        with self._opened(kind, key) as file:
            return None if file is None else self._path(kind, key)

    def get(self, kind: str, key: str) -> bytes | None:
        """The bytes of an entry, or None when there is none (or it vanished meanwhile)."""
        with self._opened(kind, key) as file:
            return None if file is None else file.read()[:-TRAILER_BYTES]

    def _path(self, kind: str, key: str) -> Path:
        assert self.directory is not None and kind in KINDS, f"the cache knows no entries of kind {kind!r}"
        return self.directory / SUBDIRECTORY / kind / key

    def _is_usable(self, folder: Path) -> bool:
        """True if nobody else may write to the folder of a kind and those above it, and none of ours is a link."""
        own = [folder, folder.parent]
        return not any(one.is_symlink() for one in own) and all(map(_is_trusted, [folder.parent.parent, *own[::-1]]))

    @contextmanager
    def _opened(self, kind: str, key: str) -> Iterator[BinaryIO | None]:
        """An entry, checked and its use renewed; None where there is none, or none to be trusted."""
        path = self._path(kind, key) if self.directory is not None else None
        file = _opened_carefully(path) if path is not None and self._is_usable(path.parent) else None
        if file is None or path is None:
            yield None
            return
        with file:
            if _why_not_trusted(path, os.fstat(file.fileno())):
                yield None
                return
            checksum = _own_checksum(file, kind, key)
            whole = checksum is not None and (KINDS[kind] or checksum == _checksum(file, content_length(file)))
            file.seek(0)
            if whole:
                with suppress(OSError):  # of a read-only cache
                    os.utime(file.fileno() if os.utime in os.supports_fd else path)
            yield file if whole else None

    def put(self, kind: str, key: str, data: bytes) -> Path | None:
        """Store bytes. A full disk or a directory gone read-only loses the entry, with one warning, not the run."""
        return self.put_file(kind, key, lambda path: _write_bytes(path, data))

    def put_file(self, kind: str, key: str, write: Callable[[Path], None]) -> Path | None:
        """Store what `write` puts at the path it is given; the entry's path, or None when it could not be stored."""
        if self.directory is None:
            return None
        path = self._path(kind, key)
        try:
            _make_directory(path.parent)
            if not self._is_usable(path.parent):
                return None
            if path.is_symlink() or (path.exists() and not path.is_file() and not path.is_dir()):
                path.unlink()  # whatever it is or leads to, it is not to be written into
            with atomic_file(path, durable=False, mode=0o644) as temporary:
                write(temporary)
                with temporary.open("r+b") as file:
                    length = file.seek(0, os.SEEK_END)
                    checksum = _UNCHECKED if KINDS[kind] else _checksum(file, length)
                    file.seek(length)
                    file.write(_trailer(kind, key, checksum))
            self._evict(added=path)
        except (OSError, UserError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            warn_once(
                f"cannot write to the cache directory {self.directory} ({reason}); going on without it",
                about=f"writing to {self.directory}",
            )
            return None
        return path if path.exists() else None

    def clear(self, kind: str | None = None) -> int:
        """Remove every entry, or every one of a kind; the number removed."""
        self._known_bytes = None
        return sum(_remove(entry) for entry in self.entries() if kind in (None, entry.kind))

    def shrink(self, max_bytes: int) -> int:
        """Remove the least recently used entries until all take at most `max_bytes`; the number removed."""
        return self._shrink(max_bytes, max_bytes)

    def size(self) -> int:
        """Bytes all entries take."""
        return sum(entry.bytes for entry in self.entries())

    def entries(self) -> list[Entry]:
        """Every file that a cache wrote here, whatever process it was, the least recently used first."""
        found: list[Entry] = []
        for kind in KINDS if self.directory is not None else ():
            folder = self._path(kind, "")
            if any(position.is_symlink() for position in (folder, folder.parent)):
                continue
            with suppress(OSError), os.scandir(folder) as names:
                for name in names:
                    entry = _entry(kind, name.name, Path(name.path))
                    found += [entry] if entry is not None else []
        return sorted(found, key=lambda entry: entry.used)

    def _evict(self, added: Path) -> None:
        """Drop the least recently used entries until the bound holds. The directory is listed only when it may not."""
        added_bytes = added.stat().st_size
        if self._known_bytes is not None and self._known_bytes + added_bytes <= self.max_bytes:
            self._known_bytes += added_bytes
            return
        # Going a little below the bound means that the next entries need no listing.
        self._shrink(self.max_bytes, self.max_bytes * 7 // 8, added)

    def _shrink(self, most: int, target: int, kept: Path | None = None) -> int:
        """Remove entries down to `target` bytes if they take more than `most`; `kept` stays if it fits at all."""
        entries, removed = self.entries(), 0
        total = sum(entry.bytes for entry in entries)
        for entry in entries if total > most else ():
            if total <= target:
                break
            if (entry.path != kept or entry.bytes > most) and _remove(entry):
                log(DEBUG, "evicted from the cache: %s %s, %d bytes", entry.kind, entry.key, entry.bytes)
                total -= entry.bytes
                removed += 1
        self._known_bytes = total
        return removed


def _entry(kind: str, key: str, path: Path) -> Entry | None:
    """The entry at a path; None for whatever no cache wrote there."""
    file = _opened_carefully(path)
    if file is None:
        return None
    with file:
        if _own_checksum(file, kind, key) is None:
            return None
        found = os.fstat(file.fileno())
    return Entry(kind, key, path, found.st_size, found.st_mtime)


def _remove(entry: Entry) -> bool:
    """Remove an entry, if it still is one."""
    with suppress(OSError):
        if _entry(entry.kind, entry.key, entry.path) is not None:
            os.unlink(entry.path)
            return True
    return False


def _opened_carefully(path: Path) -> BinaryIO | None:
    """A file for reading; None where there is none, or a link or something else. A pipe is not waited for."""
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return None  # to open a device may do something
    except OSError:
        return None
    flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(path, os.O_RDONLY | flags)
    except OSError:
        return None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        return None
    return open(handle, "rb")


def _is_trusted(directory: Path) -> bool:
    """True if the contents of a directory were put there by this user or root."""
    try:
        return not _why_not_trusted(directory, directory.stat())
    except OSError:
        return False


def _why_not_trusted(path: Path, found: os.stat_result) -> str:
    """Why others may have written a file or directory, "" if not; a warning tells it once.

    A directory in which everybody may write is one where only owners may rename or delete (as in /tmp), or is refused.
    """
    if not hasattr(os, "geteuid"):
        return ""
    shared = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
    why = ""
    if found.st_uid not in (0, os.geteuid()):
        why = f"belongs to another user (number {found.st_uid})"
    elif found.st_mode & stat.S_IWOTH and not shared:
        why = "can be written by everybody"
    if why:
        warn_once(f"{path} {why}, so nothing is taken from it; compiling anew. Remove it, or change its owner and mode")
    return why


def _make_directory(path: Path) -> None:
    """Make a directory and those above it, writable for this user alone whatever the process's mask is."""
    for position in [*reversed(path.parents), path]:
        if not position.exists():
            with suppress(FileExistsError):
                position.mkdir(mode=0o755)


def _write_bytes(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def default_directory() -> Path:
    """The default directory of the cache: ``$XDG_CACHE_HOME/tilewright`` or ``~/.cache/tilewright``."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path("~/.cache").expanduser()) / "tilewright"


def open_cache(directory: str | os.PathLike[str] | None = None) -> DiskCache:
    """The cache in `directory`, else in TILEWRIGHT_CACHE_DIR, else in the default position; made if it is not there.

    Raises `EnvironmentError_` when a requested directory cannot be written; only warns, once, and returns a
    cache that holds nothing when it is the default one. TILEWRIGHT_CACHE=0 without an argument means no cache.
    """
    if directory is None and not knobs.CACHE.get():
        return DiskCache(None)
    asked = Path(directory).expanduser() if directory is not None else knobs.CACHE_DIR.get()
    path = asked or default_directory()
    if asked is None and path in _unusable_defaults:
        return DiskCache(None)
    reason = _why_not_writable(path)
    if reason is None:
        return DiskCache(path)
    if asked is not None:
        source = "" if directory is not None else " (from TILEWRIGHT_CACHE_DIR)"
        raise EnvironmentError_(
            f"cache directory {path}{source} is not writable: {reason}. "
            "Name another with TILEWRIGHT_CACHE_DIR, or set TILEWRIGHT_CACHE=0 to work without a cache"
        )
    _unusable_defaults.add(path)
    warn_once(
        f"cache directory {path} is not writable ({reason}); working without a cache. "
        "Name another with TILEWRIGHT_CACHE_DIR, or set TILEWRIGHT_CACHE=0 to silence this"
    )
    return DiskCache(None)


_unusable_defaults: set[Path] = set()
_warned: set[str] = set()


def warn_once(message: str, about: str = "") -> None:
    """Warn with `message`, a `RuntimeWarning`, the first time in this process that there is one `about` the same."""
    if (about or message) not in _warned:
        _warned.add(about or message)
        warnings.warn(f"tilewright: {message}", RuntimeWarning, stacklevel=3)


def _why_not_writable(path: Path) -> str | None:
    """None when files can be made in `path` (created if missing); else the reason. Trying is the only sure test."""
    try:
        _make_directory(path)
        handle, name = tempfile.mkstemp(prefix=".writable.", dir=path)
        os.close(handle)
        os.unlink(name)
    except OSError as error:
        return error.strerror or str(error)
    return None


def describe() -> str:
    """One line for `tilewright doctor`: where the default cache is, how full, or why there is none."""
    if not knobs.CACHE.get():
        return "off (TILEWRIGHT_CACHE=0)"
    path = knobs.CACHE_DIR.get() or default_directory()
    reason = _why_not_writable(path)
    if reason is not None:
        return f"{path} is not writable: {reason}"
    cache = DiskCache(path)
    return f"{path}, {cache.size() / 2**20:.1f} MiB of at most {cache.max_bytes / 2**20:.0f} MiB"
