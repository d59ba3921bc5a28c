"""Namespaces that die with the script, whatever ends it.

contain() moves the caller into a network, PID and mount namespace of its own. The process that was called stays outside
as the warden: it waits, passes signals on, and returns the status. What runs inside is PID 1 there, so the kernel
kills all of it (QEMU, captures, targets) when it ends, and the tap and the network go with the last of them. PID 1
itself is killed by the kernel when the warden dies (PR_SET_PDEATHSIG), SIGKILL included, and ends when one of the
owners ends: processes further up (a test runner, ./run) whose numbers KBTP_LAB_OWNER holds, separated by commas.

As a program it prints why this machine cannot run the lab, and ends with 77; or prints nothing and ends with 0.
"""

import ctypes
import os
import select
import signal
import sys
import threading

CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET = 0x00020000, 0x20000000, 0x40000000
MS_REC, MS_PRIVATE, MS_NOSUID, MS_NODEV, MS_NOEXEC = 0x4000, 0x40000, 2, 4, 8
PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def _checked(what: str, result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def why_not() -> str | None:
    """Why this host cannot run the lab, or None."""
    if os.geteuid() != 0:
        return "only root can make the lab's network namespace and tap"
    if not os.path.exists("/dev/net/tun"):
        return "there is no /dev/net/tun"
    if not any(os.access(os.path.join(directory, "qemu-system-x86_64"), os.X_OK)
               for directory in os.environ.get("PATH", "/usr/bin").split(":")):
        return "qemu-system-x86_64 is not installed (package qemu-system-x86)"
    return _refusal()


def _refusal() -> str | None:
    """What this machine refuses to root, as a sandbox may: tried in a child."""
    said, say = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(os.open("/dev/net/tun", os.O_RDWR))
            _checked("unshare", _libc.unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET))
            _checked("mount /", _libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
        except OSError as problem:
            os.write(say, str(problem).encode())
        os._exit(0)
    os.close(say)
    with open(said, "rb") as pipe:
        problem = pipe.read().decode()
    os.waitpid(child, 0)
    return f"this machine does not let root make namespaces and a tap: {problem}" if problem else None


def _owners(with_parent: bool) -> list[int]:
    descriptors = []
    numbers = os.environ.get("KBTP_LAB_OWNER", "").split(",") + ([str(os.getppid())] if with_parent else [])
    for number in filter(None, numbers):
        try:
            descriptors.append(os.pidfd_open(int(number)))
        except ProcessLookupError:
            sys.exit(f"lab: the process {number} that KBTP_LAB_OWNER names is gone")
    return descriptors


def _end_with(descriptors: list[int]) -> None:
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    poll.poll()
    os._exit(137)


def contain(with_parent: bool = False) -> int:
    """Returns, inside the namespaces, the number that PID 1 has outside. Never returns in the warden.

    `with_parent`: the caller's parent is an owner, too.
    """
    owners = _owners(with_parent)
    warden_alive, warden_end = os.pipe()  # end of file when the warden is gone
    number_out, number_in = os.pipe()
    _checked("unshare", _libc.unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET))
    # Blocked until the warden has its handlers: a signal in between would leave the child to itself.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
    child = os.fork()
    if child == 0:
        os.close(warden_end)
        os.close(number_in)
        _checked("prctl", _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
        outside = int(os.read(number_out, 32) or b"0")
        os.close(number_out)
        if outside == 0:
            os._exit(137)  # the warden died before the kernel knew whom to kill
        _become_init(owners + [warden_alive])
        return outside
    _watch(child, number_in)
    raise AssertionError("not reached")


def _become_init(ends_with: list[int]) -> None:
    _checked("mount /", _libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
    _checked("mount /proc", _libc.mount(b"proc", b"/proc", b"proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, None))
    signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    signal.signal(signal.SIGHUP, lambda *_: os._exit(129))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
    threading.Thread(target=_end_with, args=(ends_with,), daemon=True).start()


def _watch(child: int, number_in: int) -> None:
    ended_by = []

    def pass_on(number: int, _frame: object) -> None:
        ended_by.append(number)
        os.kill(child, signal.SIGKILL)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, pass_on)
    os.write(number_in, str(child).encode())
    os.close(number_in)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
    while True:
        try:
            _, status = os.waitpid(child, 0)
            break
        except InterruptedError:
            continue
    if ended_by:
        os._exit(128 + ended_by[0])
    os._exit(os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))


if __name__ == "__main__":
    if reason := why_not():
        print(reason)
        sys.exit(77)
