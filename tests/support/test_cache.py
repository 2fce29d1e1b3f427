"""The disk cache: hits, atomic writes, the size bound, and directories that cannot be written."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest

from tilewright.errors import ArtifactError, EnvironmentError_
from tilewright.support import cache
from tilewright.support.cache import KINDS, SUBDIRECTORY, TRAILER_BYTES, DiskCache, atomic_file, digest, open_cache


@pytest.fixture(autouse=True)
def no_memory_of_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_warned", set())
    monkeypatch.setattr(cache, "_unusable_defaults", set())
    for name in ("TILEWRIGHT_CACHE", "TILEWRIGHT_CACHE_DIR", "TILEWRIGHT_CACHE_SIZE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)


def test_digest_is_stable_and_minds_boundaries() -> None:
    assert digest("a", b"b") == "0b69733ad13ba6bf894e1301c5470c20b680a43a"
    assert digest("ab", "c") != digest("a", "bc") != digest("abc")
    assert digest("a") == digest(b"a")


def test_put_and_get(tmp_path: Path) -> None:
    store = DiskCache(tmp_path, 1 << 20)
    assert store.get("native", "k1") is None
    path = store.put("native", "k1", b"code")
    assert path == tmp_path / SUBDIRECTORY / "native" / "k1" == store.find("native", "k1")
    assert store.get("native", "k1") == b"code" and store.get("artifact", "k1") is None
    store.put("native", "k1", b"other")
    assert store.get("native", "k1") == b"other" and store.size() == 5 + TRAILER_BYTES
    assert store.clear() == 1 and store.get("native", "k1") is None


def test_files_made_in_place(tmp_path: Path) -> None:
    store = DiskCache(tmp_path, 1 << 20)
    path = store.put_file("artifact", "m", lambda target: target.write_text("model") and None)
    assert path is not None and path.read_bytes()[:-TRAILER_BYTES] == b"model" == store.get("artifact", "m")
    assert os.listdir(tmp_path / SUBDIRECTORY / "artifact") == ["m"]


def test_a_write_that_fails_leaves_nothing_and_warns_once(tmp_path: Path) -> None:
    store = DiskCache(tmp_path, 1 << 20)

    def fail(target: Path) -> None:
        target.write_text("half")
        raise ArtifactError("no space")

    with pytest.warns(RuntimeWarning, match="cannot write to the cache directory .*no space"):
        assert store.put_file("artifact", "m", fail) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert store.put_file("artifact", "m", fail) is None
    assert os.listdir(tmp_path / SUBDIRECTORY / "artifact") == []


def test_the_least_recently_used_entries_go_first(tmp_path: Path) -> None:
    store = DiskCache(tmp_path, 1000)
    for i in range(10):
        path = store.put("native", str(i), bytes(100 - TRAILER_BYTES))
        assert path is not None
        os.utime(path, (1000 + i, 1000 + i))
    assert store.get("native", "0") is not None  # renews it
    store.put("native", "new", bytes(100 - TRAILER_BYTES))
    left = set(os.listdir(tmp_path / SUBDIRECTORY / "native"))
    assert {"0", "new", "9"} <= left and not {"1", "2", "3"} & left
    assert store.size() <= 1000


def test_an_entry_larger_than_the_bound_is_not_kept(tmp_path: Path) -> None:
    store = DiskCache(tmp_path, 1000)
    assert store.put("native", "huge", bytes(2000)) is None
    assert store.size() == 0


def test_a_cache_that_holds_nothing() -> None:
    store = DiskCache(None)
    assert store.put("native", "k", b"x") is None and store.get("native", "k") is None
    assert store.size() == store.clear() == 0


def test_open_cache_prefers_argument_then_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert open_cache().directory == tmp_path / "xdg" / "tilewright"
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "variable"))
    assert open_cache().directory == tmp_path / "variable"
    assert open_cache(tmp_path / "argument").directory == tmp_path / "argument"
    monkeypatch.setenv("TILEWRIGHT_CACHE", "0")
    assert open_cache().directory is None
    assert cache.describe() == "off (TILEWRIGHT_CACHE=0)"


def test_a_directory_asked_for_must_be_writable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file" / "cache"
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentError_, match=r"cache directory .*file/cache is not writable: Not a directory"):
        open_cache(blocked)
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(blocked))
    with pytest.raises(EnvironmentError_, match=r"\(from TILEWRIGHT_CACHE_DIR\) is not writable"):
        open_cache()
    assert "is not writable: Not a directory" in cache.describe()


def test_the_default_directory_may_be_unusable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.warns(RuntimeWarning, match="working without a cache"):
        assert open_cache().directory is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert open_cache().directory is None


def test_the_description_has_folder_size_and_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TILEWRIGHT_CACHE_SIZE", "2G")
    open_cache().put("native", "k", bytes(3 << 20))
    assert cache.describe() == f"{tmp_path}, 3.0 MiB of at most 2048 MiB"


def test_an_interrupted_write_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), atomic_file(path) as temporary:
        temporary.write_text("new")
        raise KeyboardInterrupt
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["out"]
    with atomic_file(path) as temporary:
        temporary.write_text("new")
    assert path.read_text() == "new" and os.listdir(tmp_path) == ["out"]
    mask = os.umask(0o022)
    os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask


_KILLED = """
import os, signal, sys
from pathlib import Path
from tilewright.support.cache import atomic_file
with atomic_file(Path(sys.argv[1])) as temporary:
    temporary.write_bytes(bytes(1 << 20))
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("exists", [False, True])
def test_a_killed_process_leaves_no_part_of_a_file(tmp_path: Path, exists: bool) -> None:
    probe = cache._open_nameless(tmp_path)
    if probe is None:
        pytest.skip("this file system has no files without a name")
    os.close(probe)
    if exists:
        (tmp_path / "out").write_text("old")
    done = subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path / "out")], check=False)
    assert done.returncode == -signal.SIGKILL
    assert os.listdir(tmp_path) == ["out"] * exists and (not exists or (tmp_path / "out").read_text() == "old")


@pytest.mark.parametrize("missing", ["files without a name", "names for them", "nothing"])
def test_atomic_files_are_the_same_by_any_way(tmp_path: Path, missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise OSError(errno.EPERM, "not here")

    if missing == "files without a name":
        monkeypatch.setattr(cache, "_open_nameless", lambda position: None)
    elif missing == "names for them":
        monkeypatch.setattr(os, "link", refuse)
    path = tmp_path / "out"
    for text in ("first", "second"):
        with atomic_file(path, mode=0o600) as temporary, atomic_file(temporary, mode=0o600) as same:
            same.write_text(text)
        assert path.read_text() == text and os.listdir(tmp_path) == ["out"]
        assert path.stat().st_mode & 0o777 == 0o600
    path.unlink()
    path.mkdir()
    with pytest.raises(OSError), atomic_file(path / "missing" / "out") as temporary:
        temporary.write_text("nowhere")
    assert os.listdir(tmp_path) == ["out"]


def test_a_hit_renews_the_entry(tmp_path: Path) -> None:
    store = DiskCache(tmp_path, 1000)
    path = store.put("native", "k", b"x")
    assert path is not None
    os.utime(path, (1, 1))
    store.find("native", "k")
    assert time.time() - path.stat().st_mtime < 60


def forbidden(store: DiskCache, warning: str) -> None:
    """The entry "k" is not taken, and one warning says why."""
    with pytest.warns(RuntimeWarning, match=warning):
        assert store.get("native", "k") is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert store.find("native", "k") is None


@pytest.fixture
def store(tmp_path: Path) -> DiskCache:
    made = DiskCache(tmp_path / "cache", 1 << 20)
    assert made.put("native", "k", b"code") and made.get("native", "k") == b"code"
    return made


def test_an_entry_is_bound_to_its_kind_and_key(store: DiskCache) -> None:
    assert store.directory is not None
    entry = store.directory / SUBDIRECTORY / "native" / "k"
    for kind, key in (("native", "other"), ("artifact", "k")):
        (store.directory / SUBDIRECTORY / kind).mkdir(exist_ok=True)
        (store.directory / SUBDIRECTORY / kind / key).write_bytes(entry.read_bytes())
        assert store.get(kind, key) is None and store.find(kind, key) is None


@pytest.mark.parametrize("contents", [b"", b"code", b"x" * 100, b"\nTWCACHE\x01"])
def test_what_has_no_trailer_is_no_entry(store: DiskCache, contents: bytes) -> None:
    assert store.directory is not None
    (store.directory / SUBDIRECTORY / "native" / "k").write_bytes(contents)
    assert store.get("native", "k") is None


@pytest.mark.parametrize("where", [0, 3, -TRAILER_BYTES + 12, -1])
def test_one_flipped_bit_makes_an_entry_none(store: DiskCache, where: int) -> None:
    assert store.directory is not None
    entry = store.directory / SUBDIRECTORY / "native" / "k"
    data = bytearray(entry.read_bytes())
    data[where] ^= 4
    entry.write_bytes(data)
    assert store.get("native", "k") is None and store.find("native", "k") is None
    assert store.put("native", "k", b"again") and store.get("native", "k") == b"again"


def with_foreign_files(folder: Path) -> dict[Path, bytes]:
    """Files that no cache wrote, in and beside the positions of entries, some of them made to look like entries."""
    below = folder / SUBDIRECTORY
    outside = folder / "Documents"
    entry = DiskCache(folder, 1 << 20).put("machine", "0" * 40, b"figures")
    assert entry is not None
    looks = entry.read_bytes()
    entry.unlink()
    made = {
        folder / "thesis.pdf": b"%PDF",
        outside / "thesis.pdf": b"%PDF" * 1000,
        folder / "artifact" / ("a" * 40): looks,
        below / "readme": b"x" * 500,
        below / "native" / "notes.txt": b"x" * 5000,
        below / "native" / ("b" * 40): looks,
        below / "native" / "odd name\n": looks[:-1],
        below / "unknown" / ("0" * 40): looks,
        below / "artifact" / "deep" / ("0" * 40): looks,
    }
    for path, data in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (below / "native" / "link").symlink_to(outside / "thesis.pdf")
    (below / "digest").symlink_to(outside)
    return made


def test_only_files_that_the_cache_wrote_are_counted_evicted_and_cleared(tmp_path: Path) -> None:
    foreign = with_foreign_files(tmp_path)
    names = sorted(tmp_path.rglob("*"))
    store = DiskCache(tmp_path, 300)
    assert store.entries() == [] and store.size() == 0 and store.clear() == 0
    for i in range(8):
        store.put("native", f"{i}", bytes(100 - TRAILER_BYTES))
    assert 0 < len(store.entries()) <= 3 and store.size() <= 300
    assert {entry.kind for entry in store.entries()} == {"native"}
    assert store.shrink(100) > 0 and store.size() == 100
    assert store.clear("machine") == 0 and store.clear("native") == 1 and store.clear() == 0
    assert {path: path.read_bytes() for path in foreign} == foreign
    assert sorted(tmp_path.rglob("*")) == names


def test_a_folder_of_entries_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    with_foreign_files(tmp_path)
    store = DiskCache(tmp_path, 1 << 20)
    assert store.put("digest", "k", b"x") is None and store.get("digest", "k") is None
    assert [path.name for path in (tmp_path / "Documents").iterdir()] == ["thesis.pdf"]


def test_only_known_kinds_are_kept(store: DiskCache) -> None:
    assert "kernel" not in KINDS
    with pytest.raises(AssertionError, match="no entries of kind 'kernel'"):
        store.put("kernel", "k", b"x")


only_owners = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners on this system")


@only_owners
@pytest.mark.parametrize("which", ["", SUBDIRECTORY, f"{SUBDIRECTORY}/native", f"{SUBDIRECTORY}/native/k"])
def test_what_everybody_may_write_is_not_read(store: DiskCache, which: str) -> None:
    assert store.directory is not None
    position = store.directory / which
    position.chmod(0o777 if position.is_dir() else 0o666)
    forbidden(store, f"{position} can be written by everybody, so nothing is taken from it")


@only_owners
def test_what_belongs_to_another_user_is_not_read(store: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = os.stat(store.directory or "").st_uid
    if owner == 0:  # root's files are read by all: give it to somebody
        os.chown((store.directory or Path()) / SUBDIRECTORY / "native" / "k", 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    forbidden(store, "belongs to another user")


@only_owners
def test_root_and_directories_like_tmp_are_trusted(store: DiskCache) -> None:
    assert store.directory is not None
    store.directory.chmod(0o1777)
    assert store.get("native", "k") == b"code"


@only_owners
def test_nothing_is_written_where_nothing_would_be_read(store: DiskCache) -> None:
    assert store.directory is not None
    (store.directory / SUBDIRECTORY / "native").chmod(0o777)
    with pytest.warns(RuntimeWarning, match="can be written by everybody"):
        assert store.put("native", "new", b"code") is None
    assert os.listdir(store.directory / SUBDIRECTORY / "native") == ["k"]


@only_owners
def test_entries_are_writable_by_their_owner_alone_whatever_the_mask(tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        store = DiskCache(tmp_path / "cache", 1 << 20)
        path = store.put("native", "k", b"code")
    finally:
        os.umask(mask)
    assert path is not None and store.get("native", "k") == b"code"
    assert [position.stat().st_mode & 0o777 for position in (path, *list(path.parents)[:3])] == [
        0o644,
        0o755,
        0o755,
        0o755,
    ]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("kind", ["pipe", "folder", "link", "dangling link", "device"])
def test_what_is_no_file_is_no_entry_and_is_replaced(store: DiskCache, tmp_path: Path, kind: str) -> None:
    assert store.directory is not None
    entry = store.directory / SUBDIRECTORY / "native" / "k"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(entry.read_bytes())
    kept = elsewhere.read_bytes()
    entry.unlink()
    if kind == "pipe":
        os.mkfifo(entry)
    elif kind == "folder":
        entry.mkdir()
    else:
        entry.symlink_to({"link": elsewhere, "dangling link": tmp_path / "none", "device": Path("/dev/zero")}[kind])
    assert store.get("native", "k") is None and store.find("native", "k") is None
    if kind == "folder":
        with pytest.warns(RuntimeWarning, match="cannot write to the cache directory"):
            assert store.put("native", "k", b"new") is None
    else:
        assert store.put("native", "k", b"new") and store.get("native", "k") == b"new"
    assert elsewhere.read_bytes() == kept and not (tmp_path / "none").exists()


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "dangling").symlink_to("made")
    for name in ("link", "dangling"):
        with atomic_file(tmp_path / name) as temporary:
            temporary.write_text("new")
        assert (tmp_path / name).is_symlink() and (tmp_path / name).read_text() == "new"
    assert sorted(os.listdir(tmp_path)) == ["dangling", "link", "made", "real"]


def test_a_device_is_written_into() -> None:
    with atomic_file(Path(os.devnull)) as temporary:
        temporary.write_text("new")
    assert not temporary.exists() and not Path(os.devnull).is_file()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_written_into(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    with atomic_file(tmp_path / "pipe") as temporary:
        temporary.write_bytes(bytes(range(256)) * 1000)
    reader.join(20)
    assert read == [bytes(range(256)) * 1000] and (tmp_path / "pipe").is_fifo()
