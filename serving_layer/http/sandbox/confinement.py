"""Takes everything from this process but computing: no file, socket or process can be opened any more, and memory and
time have an end.

For Linux on x86-64 and ARM64, by any user. What holds it is a seccomp filter that lets through the system calls below
and no others: computing, and reading and writing what is open already. A network namespace of its own, where the kernel
allows one, is a second wall behind it.
"""

import ctypes
import os
import platform
import resource
import signal
import socket
import struct
import sys
from contextlib import suppress

from hourline_core.errors import SetupError

_CALLS = """
    read 0 63  write 1 64  close 3 57  fstat 5 80  lseek 8 62  readv 19 65  writev 20 66
    mmap 9 222  mprotect 10 226  munmap 11 215  brk 12 214  mremap 25 216  madvise 28 233
    rt_sigaction 13 134  rt_sigprocmask 14 135  rt_sigreturn 15 139  sigaltstack 131 132
    sched_yield 24 124  futex 202 98  sched_getaffinity 204 123  membarrier 324 283
    set_robust_list 273 99  rseq 334 293
    nanosleep 35 101  restart_syscall 219 128  clock_gettime 228 113  clock_getres 229 114  clock_nanosleep 230 115
    gettimeofday 96 169
    getpid 39 172  gettid 186 178  getrusage 98 165  getcpu 309 168  getrandom 318 278
    exit 60 93  exit_group 231 94
"""
"""The allowed system calls, with their numbers on x86-64 and on ARM64."""

_MACHINES = {"x86_64": (0xC000003E, 1, 56), "aarch64": (0xC00000B7, 2, 220)}
"""The audit architecture for these numbers, and the number of clone."""

_CLONE3 = 435
_LOAD_WORD, _JUMP_IF_EQUAL, _JUMP_IF_SET, _RETURN = 0x20, 0x15, 0x45, 0x06  # of classic BPF
_KILL, _ALLOW = 0x80000000, 0x7FFF0000
_REFUSE, _UNKNOWN = 0x00050001, 0x00050026  # with EPERM; with ENOSYS
_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 22, 38
_SECCOMP_MODE_FILTER = 2
_CLONE_THREAD, _CLONE_NEWUSER, _CLONE_NEWNET = 0x00010000, 0x10000000, 0x40000000


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def refuse_unsupported() -> None:
    """Raise SetupError if this process cannot be confined."""
    if sys.platform != "linux" or platform.machine() not in _MACHINES:
        raise SetupError(
            "free SQL needs Linux on x86-64 or ARM64, whose kernel confines the process that runs it; this is "
            f"{platform.system()} on {platform.machine()}. Set serve.sql to false, or serve it from a container"
        )


def leave_network() -> bool:
    """Enter a new network namespace, in which not even loopback is up. Returns False if this is not allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    # Root's own, or with a user namespace anybody's, where that is not switched off.
    return any(libc.unshare(flags) == 0 for flags in (_CLONE_NEWUSER | _CLONE_NEWNET, _CLONE_NEWNET))


def die_with_parent() -> None:
    """Let the kernel kill this process when the thread that started it has ended."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def confine(memory: int, seconds: int) -> None:
    """Confine this process for good. ``memory`` is the number of bytes that it may map beyond what it has, ``seconds``
    its processor time.

    It holds for this thread and for those that it starts. Raises SetupError if something is still possible that must
    not be.
    """
    _limit(resource.RLIMIT_AS, _mapped() + memory)
    _limit(resource.RLIMIT_CPU, seconds)
    for forbidden in (
        resource.RLIMIT_FSIZE,
        resource.RLIMIT_CORE,
        resource.RLIMIT_NPROC,
        resource.RLIMIT_MEMLOCK,
        resource.RLIMIT_MSGQUEUE,
    ):
        _limit(forbidden, 0)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)  # Without this, only root may filter.
    filter_ = _filter()
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(_Program(len(filter_) // 8, filter_)))
    _prove()


def _filter() -> bytes:
    architecture, column, clone = _MACHINES[platform.machine()]
    numbers = [int(number) for number in _CALLS.split()[column::3]]
    last = len(numbers)
    return b"".join(
        [
            _instruction(_LOAD_WORD, 4),
            _instruction(_JUMP_IF_EQUAL, architecture, 1, 0),
            _instruction(_RETURN, _KILL),  # A system call of another architecture would have other numbers.
            _instruction(_LOAD_WORD, 0),
            # Arrow reads by threads of its own, which are under this filter, too. The C library falls back on clone,
            # whose flags can be checked.
            _instruction(_JUMP_IF_EQUAL, _CLONE3, 0, 1),
            _instruction(_RETURN, _UNKNOWN),
            _instruction(_JUMP_IF_EQUAL, clone, 0, 4),
            _instruction(_LOAD_WORD, 16),
            _instruction(_JUMP_IF_SET, _CLONE_THREAD, 0, 1),
            _instruction(_RETURN, _ALLOW),
            _instruction(_RETURN, _REFUSE),
            *(_instruction(_JUMP_IF_EQUAL, number, last - position, 0) for position, number in enumerate(numbers)),
            _instruction(_RETURN, _REFUSE),
            _instruction(_RETURN, _ALLOW),
        ]
    )


def _instruction(code: int, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, operand)


def _prove() -> None:
    """Test the confinement by trying. A kernel may know seccomp and not apply it, as some emulations do."""
    for attempt in (lambda: os.open("/", os.O_RDONLY), socket.socket, os.fork, os.pipe):
        with suppress(PermissionError):
            attempt()
            raise SetupError("free SQL was not confined: this kernel applies no seccomp filter. Set serve.sql to false")


def _mapped() -> int:
    with open("/proc/self/statm", encoding="ascii") as pages:  # noqa: PTH123
        return int(pages.read().split()[0]) * resource.getpagesize()


def _limit(what: int, value: int) -> None:
    resource.setrlimit(what, (value, value))


def _prctl(option: int, *values: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, *values, *[0] * (4 - len(values))) != 0:
        number = ctypes.get_errno()
        raise SetupError(
            f"free SQL cannot be confined: prctl({option}) says {os.strerror(number)}. Set serve.sql to false"
        )
