"""Confinement of a process before it runs a stranger's code, on Linux; each measure is tried, and those in effect are
reported.

| measure | against |
|---|---|
| limits (`setrlimit`) | memory without end, files without end, core dumps |
| another user, where the server is root | the server's files and processes |
| a network namespace of its own | connections to anything |
| Landlock, from Linux 5.13 | writing but into the worker's own folder; reading but programs, packages and uploads |
| no new privileges, and a seccomp filter | programs started, processes forked, sockets, tracing, mounting |

A container may forbid some of them; docs/fleet.md says what each protects from. The measures are applied in this order,
as the later ones forbid the calls of the earlier. Numbers are those of the kernel's interface (asm/unistd.h,
linux/{prctl,seccomp,filter,landlock,audit}.h).
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import signal
import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

#: Processes of the user of a process with children, at a time.
_MOST_PROCESSES = 512
#: The user of workers of a server that is root: nobody, on every Linux.
_NOBODY = 65534
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
_SET_DEATH_SIGNAL, _SET_SECCOMP, _SET_NO_NEW_PRIVILEGES, _FILTER = 1, 22, 38, 2
_THREAD = 0x00010000  # CLONE_THREAD
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT, _PATH_BENEATH = 444, 445, 446, 1
#: Landlock's first version: execute, read files, list folders; and write files, remove and make any kind of them.
_READS, _WRITES, _READ_FILE = 0b1101, 1 << 1 | 0x1FF << 4, 0b101
#: Its second version: files moved from one folder to another; without it that is refused.
_MOVES, _ASK_VERSION = 1 << 13, 1
#: Where programs and libraries are, and what the system tells of itself.
_SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/proc", "/sys/devices", "/dev/null", "/dev/urandom")

#: Calls by architecture: (AUDIT_ARCH, clone, clone3, those refused).
_CALLS = {
    "x86_64": (
        0xC000003E, 56, 435,
        {"socket": 41, "connect": 42, "socketpair": 53, "fork": 57, "vfork": 58, "execve": 59, "kill": 62,
         "ptrace": 101, "mount": 165, "umount2": 166, "reboot": 169, "init_module": 175, "tkill": 200, "keyctl": 250,
         "unshare": 272, "perf_event_open": 298, "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311,
         "finit_module": 313, "bpf": 321, "execveat": 322, "userfaultfd": 323, "io_uring_setup": 425,
         "pidfd_open": 434},
    ),
    "aarch64": (
        0xC00000B7, 220, 435,
        {"umount2": 39, "mount": 40, "unshare": 97, "init_module": 105, "ptrace": 117, "kill": 129, "tkill": 130,
         "reboot": 142, "socket": 198, "socketpair": 199, "connect": 203, "keyctl": 219, "execve": 221,
         "perf_event_open": 241, "setns": 268, "process_vm_readv": 270, "process_vm_writev": 271, "finit_module": 273,
         "bpf": 280, "execveat": 281, "userfaultfd": 282, "io_uring_setup": 425, "pidfd_open": 434},
    ),
}  # fmt: skip


#: The calls by which a process becomes another program.
_STARTING = frozenset({"execve", "execveat"})
#: Those of a process that has children and ends them; pipes between them may be sockets.
_FAMILY = _STARTING | {"fork", "vfork", "kill", "tkill", "socketpair"}


@dataclass(frozen=True)
class Limits:
    """Limits of a worker: bytes of memory and of a file, open files, and seconds of a request."""

    memory_bytes: int
    file_bytes: int = 1 << 30
    files: int = 256
    request_seconds: float = 600.0


def confine(
    folder: Path, readable: Sequence[Path], limits: Limits, starts: bool = False, children: bool = False
) -> dict[str, str]:
    """Drop what running models does not need; by measure, "on" or why it is not.

    `folder` is the process's own, `readable` what it needs beside the packages; one that `starts` programs may do that,
    and one with `children` may also fork and kill: it should see no others (`own_processes`).
    The process must have one thread, and have imported what it will need from other programs.
    """
    measures: dict[str, Callable[[], None]] = {
        "limits": lambda: _set_limits(limits, children),
        "network": _leave_network,
        "user": lambda: _become_nobody([folder, *readable]),
        "files": lambda: _see_only(folder, readable),
        "calls": lambda: _filter_calls(_FAMILY if children else _STARTING if starts else frozenset()),
    }
    found = {}
    for name, apply in measures.items():
        try:
            apply()
            found[name] = "on"
        except OSError as error:
            found[name] = f"off: {error.strerror or error}"
    end_with_parent()
    return found


def confined_environment(folder: Path, passed: Sequence[str]) -> dict[str, str]:
    """The variables of a process to be confined to `folder`: those named `passed`, as others may hold secrets."""
    found = {name: os.environ[name] for name in passed if name in os.environ}
    if "PYTHONPATH" in found:  # the process starts in another folder
        positions = found["PYTHONPATH"].split(os.pathsep)
        found["PYTHONPATH"] = os.pathsep.join(os.path.abspath(position) for position in positions)
    # NumPy's BLAS would start threads when it is imported, which what this process drops later would not bind
    return {**found, "HOME": str(folder), "TMPDIR": str(folder), "OPENBLAS_NUM_THREADS": "1"}


def unconfined(reason: str) -> dict[str, str]:
    """The measures as `confine` reports them, all of them off for one reason."""
    return dict.fromkeys(("limits", "network", "user", "files", "calls"), f"off: {reason}")


def _set_limits(limits: Limits, children: bool) -> None:
    if children:
        resource.setrlimit(resource.RLIMIT_NPROC, (_MOST_PROCESSES, _MOST_PROCESSES))
    resource.setrlimit(resource.RLIMIT_AS, (limits.memory_bytes, limits.memory_bytes))
    resource.setrlimit(resource.RLIMIT_FSIZE, (limits.file_bytes, limits.file_bytes))
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits.files, limits.files))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _leave_network() -> None:
    flags = _NEW_NETWORK if os.geteuid() == 0 else _NEW_NETWORK | _NEW_USER
    _checked(_libc().unshare(flags))


def _become_nobody(positions: Sequence[Path]) -> None:
    """Another user for the rest of this process's life, unless that one could not see the packages or `positions`."""
    if os.geteuid() != 0:
        raise OSError(errno.EPERM, f"the server itself runs as user {os.geteuid()}, and so does the worker")
    os.seteuid(_NOBODY)
    try:
        for file in (__file__, np.__file__, os.__file__):  # what is imported later must be there for that user too
            with open(file, "rb"):
                pass
        for position in positions:
            os.close(os.open(position, os.O_RDONLY))
    finally:
        os.seteuid(0)
    os.setgroups([])
    os.setresgid(_NOBODY, _NOBODY, _NOBODY)
    os.setresuid(_NOBODY, _NOBODY, _NOBODY)


def _see_only(folder: Path, readable: Sequence[Path]) -> None:
    """Landlock: of all files, those below `folder` may be written, and few others read. It holds for root too."""
    libc = _libc()
    writes = _WRITES | (_MOVES if libc.syscall(_LANDLOCK_CREATE, None, 0, _ASK_VERSION) >= 2 else 0)
    handled = struct.pack("<Q", _READS | writes)
    ruleset = libc.syscall(_LANDLOCK_CREATE, handled, len(handled), 0)
    _checked(ruleset)
    packages = {sys.prefix, sys.base_prefix, *(position for position in sys.path if position), *_SYSTEM}
    try:
        _allow(ruleset, str(folder), _READS | writes)
        for position in {str(position) for position in readable} | packages:
            if os.path.exists(position):
                _allow(ruleset, position, _READS if os.path.isdir(position) else _READ_FILE)
        _checked(libc.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
        _checked(libc.syscall(_LANDLOCK_RESTRICT, ruleset, 0))
    finally:
        os.close(ruleset)


def _allow(ruleset: int, position: str, rights: int) -> None:
    opened = os.open(position, os.O_PATH)
    try:
        beneath = struct.pack("<Qi", rights, opened)
        _checked(_libc().syscall(_LANDLOCK_ADD, ruleset, _PATH_BENEATH, beneath, 0))
    finally:
        os.close(opened)


def own_processes() -> bool:
    """Go on in a process that sees only its descendants, all of which end with it; false where the system forbids it.

    The process at hand stays behind, and ends with the status of the other.
    """
    new_processes = 0x20000000
    try:
        _checked(_libc().unshare(new_processes if os.geteuid() == 0 else new_processes | _NEW_USER))
    except OSError:
        return False
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
    end_with_parent()
    return True


def _filter_calls(allowed: frozenset[str]) -> None:
    """seccomp: the calls of `_CALLS` answer EPERM, and so does `clone` unless it makes a thread."""
    libc = _libc()
    program = _filter(os.uname().machine, allowed)
    memory = ctypes.create_string_buffer(program)
    described = struct.pack("<HxxxxxxQ", len(program) // 8, ctypes.addressof(memory))
    _checked(libc.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _checked(libc.prctl(_SET_SECCOMP, _FILTER, described, 0, 0))


def _filter(machine: str, allowed: frozenset[str]) -> bytes:
    """The filter as a program of the kernel's packet filter, 8 bytes an instruction (linux/filter.h)."""
    if machine not in _CALLS:
        raise OSError(errno.ENOSYS, f"no filter is written for {machine}")
    audit, clone, clone3, refused = _CALLS[machine]
    load, equal, at_least, any_bit, answer = 0x20, 0x15, 0x35, 0x45, 0x06
    allow, kill, refuse, absent = 0x7FFF0000, 0x80000000, 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
    number, architecture, flags = 0, 4, 16  # positions in struct seccomp_data
    steps = [
        (load, 0, 0, architecture), (equal, 1, 0, audit), (answer, 0, 0, kill),
        (load, 0, 0, number),
        (at_least, 0, 1, 0x40000000), (answer, 0, 0, refuse),  # the calls of x32, which have other numbers
        (equal, 0, 1, clone3), (answer, 0, 0, absent),  # the C library then uses clone, whose flags can be looked at
    ]  # fmt: skip
    for call in sorted(number for name, number in refused.items() if name not in allowed):
        steps += [(equal, 0, 1, call), (answer, 0, 0, refuse)]
    if "fork" not in allowed:
        steps += [(equal, 0, 3, clone), (load, 0, 0, flags), (any_bit, 1, 0, _THREAD), (answer, 0, 0, refuse)]
    steps += [(answer, 0, 0, allow)]
    return b"".join(struct.pack("<HBBI", *step) for step in steps)


def end_with_parent() -> None:
    """A signal when the thread that started this process ends; after the change of user, which would undo it."""
    _libc().prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> None:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
