"""The lab: a network of this process's own, QEMU guests on it, commands in them, captures of what they say.

Used from inside contain.contain(). Addresses: the host is 10.77.0.1 and fd77::1 on the interface lab0; guests are
10.77.0.2, .3 ... and fd77::2, fd77::3 ... Everything that a run leaves (serial output, what commands wrote,
captures) is in its folder. A guest runs under emulation (-accel tcg) everywhere, so that it is the same everywhere.
"""

import dataclasses
import fcntl
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Sequence

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CACHE = ROOT / "build" / "lab"
INTERFACE = "lab0"
HOST4, HOST6 = "10.77.0.1", "fd77::1"
KEPT_RUNS = 10
BOOT_DEADLINE = 90.0  # an idle machine needs 3 s, one that builds 30


class GuestDied(Exception):
    """QEMU ended, or the guest did not come up; says what is known of why."""


class CommandTimeout(Exception):
    """A command in a guest did not end, or did not say its line, before its deadline."""


@dataclasses.dataclass
class Files:
    """What prepare.sh made."""

    kernel: pathlib.Path
    image: pathlib.Path


def prepare(cache: pathlib.Path = CACHE) -> Files:
    """Makes or finds the kernel and the image. To be called before contain(): a first call needs the network."""
    made = subprocess.run([HERE / "prepare.sh", cache], stdout=subprocess.PIPE, text=True, check=False)
    if made.returncode != 0:
        raise SystemExit(3)
    said = dict(line.split("=", 1) for line in made.stdout.splitlines())
    return Files(pathlib.Path(said["KERNEL"]), pathlib.Path(said["IMAGE"]))


def run_folder(name: str, out: pathlib.Path | None = None, runs: pathlib.Path = CACHE / "runs") -> pathlib.Path:
    """The folder of a run: `out`, or a new one among `runs`, of which the ten newest stay and those that are in use.

    It is in use, by a lock on it, until this process and those that it forks have ended.
    """
    folder = (out or runs / f"{name}-{time.strftime('%H%M%S')}-{os.getpid()}").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_SH)
    if not out:
        _remove_old(runs)
    return folder


def _remove_old(runs: pathlib.Path) -> None:
    def age(folder: pathlib.Path) -> float:
        return folder.stat().st_mtime if folder.exists() else 0.0

    for old in sorted(runs.iterdir(), key=age, reverse=True)[KEPT_RUNS:]:
        try:
            lock = os.open(old, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            continue  # another run has removed it
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(old, ignore_errors=True)
        except BlockingIOError:
            pass
        finally:
            os.close(lock)


def _run(*words: object) -> None:
    subprocess.run([str(word) for word in words], check=True, stdin=subprocess.DEVNULL)


def _libraries(program: pathlib.Path) -> list[pathlib.Path]:
    said = subprocess.run(["ldd", program], stdout=subprocess.PIPE, text=True, check=False).stdout
    return [pathlib.Path(path) for path in re.findall(r"=> (/\S+)", said)]


def archive(files: Sequence[tuple[str, bytes]]) -> bytes:
    """A cpio archive (newc) of executable files, for the kernel to unpack after the image."""
    out = bytearray()
    for number, (name, content) in enumerate([*files, ("TRAILER!!!", b"")], start=1):
        mode = 0o100755 if content else 0
        head = [number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0]
        out += b"070701" + b"".join(b"%08X" % field for field in head) + name.encode() + b"\0"
        out += bytes(-len(out) % 4) + content
        out += bytes(-len(out) % 4)
    return bytes(out)


def overlay(programs: Sequence[pathlib.Path]) -> bytes:
    """The project's programs with the libraries that ldd names, at the places where a guest's loader looks."""
    wanted = {f"usr/bin/{program.name}": program for program in programs}
    for program in programs:
        for library in _libraries(program):
            wanted[f"usr/lib/x86_64-linux-gnu/{library.name}"] = library
    return archive([(name, path.read_bytes()) for name, path in sorted(wanted.items())])


class Network:
    """lab0 in this network namespace: a tap alone for one guest, a bridge of taps for several."""

    def __init__(self, guests: int, mtu: int = 1500):
        _run("ip", "link", "set", "lo", "up")
        self.taps = [INTERFACE] if guests == 1 else [f"tap{number}" for number in range(guests)]
        for tap in self.taps:
            _run("ip", "tuntap", "add", "dev", tap, "mode", "tap")
            _run("ip", "link", "set", tap, "mtu", mtu, "up")
        if guests > 1:
            _run("ip", "link", "add", INTERFACE, "type", "bridge", "stp_state", "0", "forward_delay", "0", "mcast_snooping", "0")
            for tap in self.taps:
                _run("ip", "link", "set", tap, "master", INTERFACE)
            _run("ip", "link", "set", INTERFACE, "mtu", mtu, "up")
        _run("ip", "addr", "add", f"{HOST4}/24", "dev", INTERFACE)
        _run("ip", "-6", "addr", "add", f"{HOST6}/64", "dev", INTERFACE, "nodad")


@dataclasses.dataclass
class Job:
    """A command in a guest. Its output is in files that the host sees grow."""

    guest: "Guest"
    number: str
    folder: pathlib.Path
    status: int | None = None

    @property
    def stdout(self) -> str:
        return (self.folder / "stdout").read_text(errors="replace") if (self.folder / "stdout").exists() else ""

    @property
    def stderr(self) -> str:
        return (self.folder / "stderr").read_text(errors="replace") if (self.folder / "stderr").exists() else ""

    def wait(self, timeout: float) -> int:
        """The command's exit status. GuestDied when the guest ends first, CommandTimeout after `timeout` seconds."""
        self.guest.wait_for(lambda: self.status is not None, timeout, f"'{self.command}' did not end")
        assert self.status is not None
        return self.status

    def wait_for_line(self, pattern: str, timeout: float) -> re.Match[str]:
        """The first line of its output that matches; fails early when the command ends without one."""
        deadline = time.monotonic() + timeout
        while True:
            ended = self.status is not None
            for line in (self.stdout + self.stderr).splitlines():
                if found := re.search(pattern, line):
                    return found
            if ended:
                raise CommandTimeout(f"'{self.command}' ended with {self.status} before it said '{pattern}': {self.stderr[-500:]}")
            if time.monotonic() > deadline:
                raise CommandTimeout(f"'{self.command}' did not say '{pattern}' in {timeout:.0f} s: {self.stderr[-500:]}")
            self.guest.check_alive()
            time.sleep(0.02)

    def signal(self, name: str) -> None:
        """Sends a signal (TERM, KILL ...) to the command and all that it started."""
        self.guest.say(f"signal {self.number} {name}")

    def end(self, timeout: float = 15.0) -> int:
        """SIGTERM, then, after `timeout` seconds, SIGKILL. The exit status."""
        if self.status is None:
            self.signal("TERM")
            try:
                return self.wait(timeout)
            except CommandTimeout:
                self.signal("KILL")
        return self.wait(timeout)

    @property
    def command(self) -> str:
        return (self.folder / "command").read_text().splitlines()[-1]


class Guest:
    """One QEMU guest. `kind` is the device that it has: siw, siw-params, rxe, or none."""

    def __init__(self, files: Files, folder: pathlib.Path, kind: str, *, programs: Sequence[pathlib.Path] = (), number: int = 0,
                 tap: str = INTERFACE, memory: int = 512, mtu: int = 1500, log=lambda text: None):
        self.files, self.folder, self.kind, self.programs = files, folder, kind, programs
        self.number, self.tap, self.memory, self.mtu, self.log = number, tap, memory, mtu, log
        self.address4, self.address6 = f"10.77.0.{number + 2}", f"fd77::{number + 2}"
        self.share = folder / "share"
        self.device = f"{kind.split('-')[0]}0"
        self._jobs: dict[str, Job] = {}
        self._changed = threading.Condition()
        self._setup_status: int | None = None
        self._qemu: subprocess.Popen[bytes] | None = None
        self.boot_seconds = 0.0

    # ---- life

    def start(self) -> None:
        """Boots. A guest that does not come up is told of and tried once more; then GuestDied."""
        try:
            self._boot()
        except GuestDied as reason:
            self.log(f"guest {self.number}: {reason}; booting it once more")
            self.stop()
            self._boot()

    def stop(self) -> None:
        """Ends QEMU. What the guest wrote stays in the folder."""
        if self._qemu is None:
            return
        try:
            self.say("off")
            self._qemu.wait(3)
        except (OSError, subprocess.TimeoutExpired, GuestDied):
            self._qemu.kill()
            self._qemu.wait()
        (self.folder / "initramfs.cpio").unlink(missing_ok=True)
        self._qemu = None

    def _boot(self) -> None:
        started = time.monotonic()
        self._jobs.clear()
        self._setup_status = None
        shutil.rmtree(self.share / "jobs", ignore_errors=True)
        (self.share / "jobs").mkdir(parents=True)
        (self.share / "setup.sh").write_text(self._setup())
        initramfs = self.folder / "initramfs.cpio"
        initramfs.write_bytes(self.files.image.read_bytes() + overlay(self.programs))
        mac = f"52:54:00:77:00:{self.number + 2:02x}"
        command = ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-M", "q35", "-cpu", "max", "-smp", "1", "-m", self.memory,
                   "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
                   "-kernel", self.files.kernel / "vmlinux", "-initrd", initramfs,
                   "-append", "console=ttyS0 quiet panic=-1 oops=panic tsc=reliable no_timer_check mitigations=off",
                   "-serial", f"file:{self.folder / 'serial.log'}", "-serial", "stdio",
                   "-virtfs", f"local,path={self.share},mount_tag=host,security_model=none,multidevs=remap",
                   # No offloads: what a capture on the tap shows is what a wire would carry.
                   "-netdev", f"tap,id=net,ifname={self.tap},script=no,downscript=no,vnet_hdr=off",
                   "-device", f"virtio-net-pci,netdev=net,mac={mac}", "-device", "virtio-rng-pci"]
        with open(self.folder / "qemu.log", "ab") as log:
            self._qemu = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                          stderr=log, bufsize=0)
        threading.Thread(target=self._listen, args=(self._qemu,), daemon=True).start()
        try:
            self.wait_for(lambda: self._setup_status is not None, BOOT_DEADLINE, "it did not come up")
        except CommandTimeout as reason:
            raise GuestDied(f"{reason} in {BOOT_DEADLINE:.0f} s; {self._last_words()}") from None
        if self._setup_status != 0:
            raise GuestDied(f"its set-up ended with {self._setup_status}: {(self.share / 'setup.log').read_text()[-800:]}")
        self.boot_seconds = time.monotonic() - started

    def _setup(self) -> str:
        lines = ["set -e", "for try in $(seq 100); do [ -e /sys/class/net/eth0 ] && break; usleep 20000; done",
                 f"ip link set eth0 mtu {self.mtu} up", f"ip addr add {self.address4}/24 dev eth0",
                 f"ip -6 addr add {self.address6}/64 dev eth0 nodad"]
        if self.kind != "none":
            module = "rdma_rxe" if self.kind == "rxe" else self.kind
            lines += ["modprobe ib_uverbs", "modprobe rdma_ucm", f"modprobe {module}",
                      f"rdma link add {self.device} type {self.device[:-1]} netdev eth0"]
        return "\n".join(lines) + "\n"

    def _listen(self, qemu: subprocess.Popen[bytes]) -> None:
        assert qemu.stdout is not None
        for raw in qemu.stdout:
            words = raw.decode(errors="replace").split()
            with self._changed:
                if qemu is not self._qemu:
                    return
                if words[:1] == ["ready"]:
                    self._setup_status = int(words[1])
                elif words[:1] == ["exit"] and words[1] in self._jobs:
                    self._jobs[words[1]].status = int(words[2])
                self._changed.notify_all()
        qemu.wait()
        with self._changed:
            self._changed.notify_all()

    def _last_words(self) -> str:
        serial = self.folder / "serial.log"
        lines = serial.read_text(errors="replace").splitlines() if serial.exists() else []
        telling = [line for line in lines if re.search(r"BUG|Oops|panic|RIP:|Out of memory|lab:", line)] or lines
        return f"serial output: {' | '.join(telling[-4:]) or 'none'} ({serial})"

    def check_alive(self) -> None:
        if self._qemu is None or self._qemu.poll() is not None:
            status = None if self._qemu is None else self._qemu.returncode
            raise GuestDied(f"guest {self.number} is gone (QEMU ended with {status}); {self._last_words()}")

    def wait_for(self, condition, timeout: float, what: str) -> None:
        deadline = time.monotonic() + timeout
        with self._changed:
            while not condition():
                self.check_alive()
                if time.monotonic() > deadline:
                    raise CommandTimeout(f"{what} in {timeout:.0f} s")
                self._changed.wait(min(1.0, max(0.01, deadline - time.monotonic())))

    # ---- commands

    def say(self, line: str) -> None:
        if self._qemu is None or self._qemu.stdin is None:
            raise GuestDied("the guest does not run")
        try:
            self._qemu.stdin.write(f"{line}\n".encode())
        except BrokenPipeError:
            self.check_alive()
            raise

    def spawn(self, command: str, env: dict[str, str] | None = None) -> Job:
        """Starts a shell command; it runs as root in /root, with LAB_* telling the addresses."""
        number = str(len(self._jobs) + 1)
        job = Job(self, number, self.share / "jobs" / number)
        job.folder.mkdir(exist_ok=True)
        variables = {"LAB_SELF": self.address4, "LAB_SELF6": self.address6, "LAB_HOST": HOST4, "LAB_HOST6": HOST6,
                     "LAB_DEVICE": self.device, **(env or {})}
        exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
        (job.folder / "command").write_text(f"{exports}cd /root\n{command}\n")
        self._jobs[number] = job
        self.say(f"run {number}")
        return job

    def run(self, command: str, timeout: float = 60.0, env: dict[str, str] | None = None) -> Job:
        """Runs a shell command to its end; the job has its status and output."""
        job = self.spawn(command, env)
        job.wait(timeout)
        return job

    def collect(self) -> None:
        """Puts the kernel's messages into the folder."""
        try:
            self.run("dmesg > /host/dmesg.txt", 10)
        except (GuestDied, CommandTimeout, OSError) as reason:
            self.log(f"guest {self.number}: no dmesg: {reason}")


class Capture:
    """tcpdump on an interface of this namespace, from when it listens until a datagram of our own has come through."""

    _FENCE = b"the lab's capture ends here"

    def __init__(self, file: pathlib.Path, expression: str, interface: str = INTERFACE, mtu: int = 1500):
        self.file = file
        # The kernel's ring has places of this size: with a larger one there are too few.
        snap_length = max(2048, mtu + 128)
        self._fence_port = 9
        self._said = file.with_suffix(".tcpdump.txt")
        with open(self._said, "wb") as said:
            self._tcpdump = subprocess.Popen(
                ["tcpdump", "-i", interface, "-Z", "root", "-s", str(snap_length), "-U", "-B", "131072", "--immediate-mode", "-w", str(file),
                 f"({expression}) or (udp dst port {self._fence_port} and src host {HOST4})"], stdout=said, stderr=said)
        deadline = time.monotonic() + 20
        while b"listening on" not in self._said.read_bytes():
            if self._tcpdump.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"tcpdump does not listen: {self._said.read_text()}")
            time.sleep(0.01)

    def stop(self) -> int:
        """Ends the capture once all that came before this call is in the file. Returns how many frames were dropped."""
        deadline = time.monotonic() + 20
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as fence:
            fence.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            while not self._tail().endswith(self._FENCE):
                fence.sendto(self._FENCE, ("10.77.0.255", self._fence_port))
                time.sleep(0.02)
                if time.monotonic() > deadline:
                    break
        self._tcpdump.send_signal(signal.SIGINT)
        self._tcpdump.wait(20)
        self._cut_fences()
        dropped = re.search(r"(\d+) packets? dropped by kernel", self._said.read_text())
        return int(dropped.group(1)) if dropped else -1

    def _tail(self) -> bytes:
        with open(self.file, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - len(self._FENCE)))
            return file.read()

    def _cut_fences(self) -> None:
        content = self.file.read_bytes()
        kept, offset = bytearray(content[:24]), 24
        while offset + 16 <= len(content):
            (length,) = struct.unpack_from("<I", content, offset + 8)
            record = content[offset : offset + 16 + length]
            if not record.endswith(self._FENCE):
                kept += record
            offset += 16 + length
        self.file.write_bytes(kept)
