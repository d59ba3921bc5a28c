#!/usr/bin/env python3
"""Kills the lab at many moments and in several ways, and looks for what it left: processes, namespaces, mounts.

A tap belongs to its network namespace, and a namespace that no process and no mount holds is gone: so these are what is looked for.
Everything that a lab starts inherits an environment variable by which it is found. Ends with 0, 1 or 77.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import uuid

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import contain
import guest as lab

DELAYS = (0.0, 0.05, 0.2, 0.4, 0.7, 1.0, 1.5, 2.5)  # seconds after the start
GONE_WITHIN = 10.0


def numbers() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def marked(mark: str) -> list[int]:
    """Processes that carry the mark, zombies left out: they hold nothing."""
    found = []
    for number in numbers():
        try:
            if mark.encode() in pathlib.Path(f"/proc/{number}/environ").read_bytes() and "\nState:\tZ" not in pathlib.Path(f"/proc/{number}/status").read_text():
                found.append(number)
        except OSError:
            continue
    return found


def command_line(number: int) -> bytes:
    return pathlib.Path(f"/proc/{number}/cmdline").read_bytes().replace(b"\0", b" ")


def namespaces(of: list[int]) -> set[str]:
    found = set()
    for number in of:
        try:
            found |= {os.readlink(f"/proc/{number}/ns/net"), os.readlink(f"/proc/{number}/ns/pid")}
        except OSError:
            continue
    return found


def parent_of(number: int) -> int:
    try:
        return int(pathlib.Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


def leftovers(mark: str, seen: set[str]) -> list[str]:
    def held() -> set[str]:
        return namespaces(numbers()) & (seen - namespaces([os.getpid()]))

    deadline = time.monotonic() + GONE_WITHIN
    while (marked(mark) or held()) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = marked(mark)
    names = []
    for number in left:
        try:
            names.append(f"process {number}: {command_line(number).decode()[:100]}")
        except OSError:
            continue
    mounted = [line for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines() if any(name in line for name in seen)]
    return names + sorted(held()) + mounted


def folder(mark: str) -> pathlib.Path:
    return lab.CACHE / "runs" / f"kill-{mark[:8]}"


def start(mark: str, device: str, owner: int | None) -> subprocess.Popen[bytes]:
    env = os.environ | {"KBTP_LAB_MARK": mark}
    env.pop("KBTP_LAB_OWNER", None)
    if owner:
        env["KBTP_LAB_OWNER"] = str(owner)
    return subprocess.Popen([HERE / "lab.py", device, "echo the guest is up; sleep 60", "--out", folder(mark)], env=env, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)


def one(what: str, device: str, delay: float | None) -> bool:
    """`delay` None: once the guest runs its command."""
    mark = uuid.uuid4().hex
    owner = subprocess.Popen(["sleep", "100"]) if what == "owner" else None
    process = start(mark, device, owner.pid if owner else None)
    assert process.stdout is not None
    if delay is None:
        process.stdout.readline()
    else:
        time.sleep(delay)  # not a wait for an event: the moment is what is varied
    at_work = marked(mark)
    seen = namespaces(at_work)
    # Were it not found now, nor would it be when it is left behind.
    guest_seen = delay is not None or any(b"qemu-system" in command_line(number) for number in at_work)
    if owner:
        owner.kill()
        owner.wait()
    elif what == "inner":
        inner = [number for number in marked(mark) if parent_of(number) == process.pid and namespaces([number]) != namespaces([os.getpid()])]
        for number in inner or [process.pid]:
            os.kill(number, signal.SIGKILL)
    else:
        process.send_signal(signal.SIGKILL if what == "SIGKILL" else signal.SIGTERM)
    left = leftovers(mark, seen) if guest_seen else ["nothing: the guest did not run"]
    process.kill()
    process.wait()
    print(f"{what:8} {device:4} {'in the command' if delay is None else f'after {delay:.2f} s':15} {'clean' if not left else 'LEFT: ' + '; '.join(left)}", flush=True)
    for number in marked(mark):
        os.kill(number, signal.SIGKILL)
    if not left:
        shutil.rmtree(folder(mark), ignore_errors=True)
    return not left


def main() -> int:
    if reason := contain.why_not():
        print(f"skipped: {reason}")
        return 77
    lab.prepare()
    clean = [one("SIGKILL", "siw", delay) for delay in (*DELAYS, None)]
    clean += [one(what, "siw", delay) for what in ("SIGTERM", "inner", "owner") for delay in (0.7, None)]
    clean += [one("SIGKILL", "rxe", delay) for delay in (1.0, None)]
    print(f"{sum(clean)} of {len(clean)} ended clean")
    return 0 if all(clean) else 1


if __name__ == "__main__":
    sys.exit(main())
