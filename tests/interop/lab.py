#!/usr/bin/env python3
"""Boots the lab's guests and runs commands in them; see --help and docs/lab.md."""

import argparse
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import contain
import guest as lab

TARGET_PORT = 7471
EPILOG = """\
environment of every command:
  LAB_SELF, LAB_SELF6      the addresses of the machine that it runs on
  LAB_GUEST, LAB_GUEST6    guest A's            LAB_OTHER, LAB_OTHER6   guest B's (rxe)
  LAB_HOST, LAB_HOST6      this host's          LAB_DEVICE              the RDMA device in a guest (siw0, rxe0)
  LAB_INTERFACE            where the host captures (lab0)                LAB_OUT   the folder of this run
A guest sees LAB_OUT's share/ as /host.

exit status: that of COMMAND (of --host's command, where there is one); 3 when the lab cannot be set up, or a guest
died twice; 77 when this machine lacks QEMU, /dev/net/tun or root.

examples:
  ./run lab siw ibv_devinfo
  ./run lab siw                                    a target over siw, also at a port of 127.0.0.1
  ./run lab rxe 'until rping -c -a $LAB_OTHER -C 3; do sleep 0.2; done' --other 'rping -s -P -a $LAB_SELF' --ready ''
  ./run lab siw 'rping -s -a $LAB_SELF -p 7471 -C 1' --host './my-client $LAB_GUEST' --capture
"""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./run lab", description="Boots a QEMU guest with a kernel RDMA device and runs a command in it.",
                                     epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("device", choices=["siw", "siw-params", "rxe"],
                        help="siw as Debian's source has it; siw with its compile-time settings as module parameters; rxe, in two guests")
    parser.add_argument("command", nargs="?", help="shell command for the guest (guest A of rxe); without one, a KBTP target over verbs")
    parser.add_argument("--host", metavar="COMMAND", help="run this on the host, in the lab's network, while the guest's command runs; both end with it")
    parser.add_argument("--other", metavar="COMMAND", help="rxe: run this in guest B before COMMAND, and end it after")
    parser.add_argument("--ready", metavar="REGEX", default="listening on",
                        help="with --host or --other: the line that the first command prints when the second may start; '' is at once (default: %(default)s)")
    parser.add_argument("--kbtp", type=pathlib.Path, default=lab.ROOT / "build/release/kbtp", help="the kbtp that guests get (default: %(default)s)")
    parser.add_argument("--program", type=pathlib.Path, action="append", default=[], help="one more program for the guests")
    parser.add_argument("--out", type=pathlib.Path, help="folder for logs, serial output and captures (default: build/lab/runs/...)")
    parser.add_argument("--capture", nargs="?", const="ip or ip6", metavar="EXPRESSION", help="capture lab0 into OUT/lab0.pcap")
    parser.add_argument("--timeout", type=float, default=600, help="seconds that COMMAND may take (default: %(default).0f)")
    parser.add_argument("--memory", type=int, default=512, help="MiB of a guest (default: %(default)s)")
    parser.add_argument("--mtu", type=int, default=1500)
    parser.add_argument("--no-retry", action="store_true", help="a guest that dies is not tried once more")
    return parser.parse_intermixed_args()  # the command may stand behind the options


def say(text: str) -> None:
    print(f"lab: {text}", file=sys.stderr, flush=True)


class Follow:
    """Copies a job's output to ours as it comes."""

    def __init__(self, job: lab.Job):
        self._job, self._offsets, self._stop = job, {"stdout": 0, "stderr": 0}, threading.Event()
        self._thread = threading.Thread(target=self._copy, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._stop.set()
        self._thread.join()

    def _copy(self) -> None:
        while not self._stop.wait(0.05):
            self._step()
        self._step()

    def _step(self) -> None:
        for name, stream in (("stdout", sys.stdout.buffer), ("stderr", sys.stderr.buffer)):
            path = self._job.folder / name
            if path.exists():
                with open(path, "rb") as file:
                    file.seek(self._offsets[name])
                    if new := file.read():
                        stream.write(new)
                        stream.flush()
                        self._offsets[name] += len(new)


class Relay:
    """TCP connections to a port of 127.0.0.1 outside, carried on to the guest. The socket is made outside."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]

    def start(self, address: str, port: int) -> None:
        threading.Thread(target=self._accept, args=(address, port), daemon=True).start()

    def _accept(self, address: str, port: int) -> None:
        while True:
            near, _ = self._listener.accept()
            try:
                far = socket.create_connection((address, port), timeout=10)
            except OSError as reason:
                say(f"nobody answers at {address}:{port}: {reason}")
                near.close()
                continue
            far.settimeout(None)
            for one, two in ((near, far), (far, near)):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._copy, args=(one, two), daemon=True).start()

    @staticmethod
    def _copy(source: socket.socket, sink: socket.socket) -> None:
        try:
            while octets := source.recv(1 << 18):
                sink.sendall(octets)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            for end in (source, sink):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass


class Run:
    def __init__(self, options: argparse.Namespace, files: lab.Files, programs: list[pathlib.Path], out: pathlib.Path, outside: int, relay: Relay):
        self.options, self.files, self.programs, self.out, self.outside, self.relay = options, files, programs, out, outside, relay
        self.guests: list[lab.Guest] = []

    def boot(self, network: lab.Network, attempt: int) -> None:
        names = ["a", "b"][: len(network.taps)]
        self.guests = [lab.Guest(self.files, self.out / (name if attempt == 1 else f"{name}-again"), self.options.device, programs=self.programs,
                                 number=number, tap=tap, memory=self.options.memory, mtu=self.options.mtu, log=say)
                       for number, (name, tap) in enumerate(zip(names, network.taps))]
        failures: list[Exception] = []

        def start(one: lab.Guest) -> None:
            try:
                one.start()
            except Exception as reason:  # carried to the caller's thread
                failures.append(reason)

        threads = [threading.Thread(target=start, args=(one,)) for one in self.guests]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]

    def environment(self) -> dict[str, str]:
        env = {"LAB_GUEST": self.guests[0].address4, "LAB_GUEST6": self.guests[0].address6, "LAB_HOST": lab.HOST4, "LAB_HOST6": lab.HOST6,
               "LAB_INTERFACE": lab.INTERFACE, "LAB_OUT": str(self.out)}
        if len(self.guests) > 1:
            env |= {"LAB_OTHER": self.guests[1].address4, "LAB_OTHER6": self.guests[1].address6}
        return env

    def collect(self) -> None:
        for one in self.guests:
            one.collect()
            one.stop()

    def await_ready(self, job: lab.Job) -> None:
        if self.options.ready:
            job.wait_for_line(self.options.ready, 60)

    def once(self) -> int:
        env = self.environment()
        first, other = self.guests[0], None
        if self.options.other:
            other = self.guests[1].spawn(self.options.other, env)
            self.await_ready(other)
        command = self.options.command or f"kbtp target --transport verbs --network trusted --listen {first.address4}:{TARGET_PORT}"
        job = first.spawn(command, env)
        follow = Follow(job)
        try:
            if not self.options.command and not self.options.host:
                self.await_ready(job)
                self.relay.start(first.address4, TARGET_PORT)
                say(f"the target is at 127.0.0.1:{self.relay.port}; inside the lab's network (nsenter --target {self.outside} --net) at {first.address4}:{TARGET_PORT}")
                while job.status is None:
                    first.check_alive()
                    time.sleep(0.2)
                status = job.status
            elif self.options.host:
                self.await_ready(job)
                status = subprocess.run(["sh", "-c", self.options.host], env=os.environ | env | {"LAB_SELF": lab.HOST4, "LAB_SELF6": lab.HOST6},
                                        timeout=self.options.timeout, check=False).returncode
                ended = job.end()
                say(f"the guest's command ended with {ended}")
            else:
                status = job.wait(self.options.timeout)
            if other:
                other.end()
        finally:
            follow.end()
        return status


def main() -> int:
    options = arguments()
    if (options.other and options.device != "rxe") or (options.host and options.device == "rxe"):
        print("lab: --other needs the two guests of rxe, and --host a guest that the host can speak with: siw", file=sys.stderr)
        return 2
    if reason := contain.why_not():
        say(f"not on this machine: {reason}")
        return 77
    started = time.monotonic()
    programs = [path for path in [options.kbtp, *options.program] if path.exists()]
    if not options.kbtp.exists():
        say(f"there is no {options.kbtp}: guests have no kbtp")
    for path in options.program:
        if not path.exists():
            say(f"there is no program {path}")
            return 2
    files = lab.prepare()
    out = lab.run_folder(options.device, options.out)
    relay = Relay()
    outside = contain.contain()

    network = lab.Network(2 if options.device == "rxe" else 1, options.mtu)
    capture = lab.Capture(out / "lab0.pcap", options.capture, mtu=options.mtu) if options.capture else None
    run = Run(options, files, programs, out, outside, relay)
    status = 3
    for attempt in (1, 2):
        try:
            run.boot(network, attempt)
            say(f"{'guest is' if len(run.guests) == 1 else 'guests are'} up after {time.monotonic() - started:.1f} s: "
                + ", ".join(f"{one.address4} {one.address6}" for one in run.guests) + f"; {out}")
            status = run.once()
            break
        except lab.GuestDied as reason:
            again = attempt == 1 and not options.no_retry
            say(f"{reason}{'; once more' if again else ''}")
            for one in run.guests:
                one.stop()
            if not again:
                break
        except (lab.CommandTimeout, subprocess.TimeoutExpired) as reason:
            say(str(reason))
            break
    run.collect()
    if capture and (dropped := capture.stop()):
        say(f"the capture lost {dropped} frames")
    return status


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
