#!/usr/bin/env python3
"""matrix.py PAIR: KBTP between the user-space RNIC and Linux siw, and between two of Linux rxe, cell by cell.

PAIR is INITIATOR-TARGET out of user-user, user-siw, siw-user, siw-siw, rxe-rxe. The user-space RNIC is on the host (in
user-user the other one is in a guest), siw in a guest; siw-siw and rxe-rxe are two guests. A cell is an IP version,
and over iWARP an MPA revision, with CRCs on or off. In each cell every operation that the pair can carry runs; the host
captures; and then three accounts must agree on every operation and every octet of block data: the target's counters,
what the initiator was told to do and reports, and what `kbtp dissect` reads off the wire, which must find nothing wrong
in any frame.

Ends with 0, 1 (a cell failed), or 77 (this machine cannot run it; says why).
"""

import argparse
import dataclasses
import fnmatch
import json
import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import contain
import guest as lab
from accounts import Account, counters_of, differences, wire_of

PORT, METRICS = 7471, 9420
IDENTITY = "6d61c0de-0000-4000-8000-000000000001"
KIB, MIB = 1 << 10, 1 << 20
BLOCK_SIZE, BLOCKS, HANDLE = 4 * MIB, 32, 48
# Octets of a block, and the blocks that each request of the trace asks for.
REPLAYS = (
    (4 * KIB, [[0, 1 + number % 2, 3 + number] for number in range(8)]),
    (64 * KIB, [[0, 1, 2], [0, 1, 3], [0, 2, 4]]),
    (MIB, [[0, 1], [0, 2]]),
    (4 * MIB, [[0], [0]]),
)
MANY = (64 * KIB, [[0, 1 + number % 2, 3 + number] for number in range(8)])  # by eight initiators
COMMAND_SECONDS = 120

NOT_CARRIED = (
    ("markers", "siw refuses a Request that asks for markers, and never asks for them (siw_cm.c)"),
    ("DIRECT_ALLOC", "siw has no Atomics (RFC 7306), so that DIRECT_ALLOC is not offered over it"),
    ("INVALIDATE by Send with Invalidate", "siw's user-level Send with Invalidate leaves with STag 0: a plain COMPLETION is sent instead"),
    ("RECORD_COMPLETION", "never offered over RDMAP (KBTP 9.1)"),
    ("Immediate Data", "siw takes no opcode above 7 (RFC 7306 is not there)"),
    ("CRC asked for by an untouched siw", "a compile-time constant of siw's says no; siw-params, the same source, has it as a parameter"),
    ("MPA revision 1 asked for by an untouched siw", "likewise"),
)


ROCE = 0  # a cell without MPA


class CellFailed(Exception):
    pass


@dataclasses.dataclass(frozen=True)
class Cell:
    ip: int
    revision: int
    crc: bool
    peer_to_peer: bool = False  # siw's initiator asks for an RTR (RFC 6581 9.2)

    def __str__(self) -> str:
        if self.revision == ROCE:
            return f"ipv{self.ip}"
        return f"ipv{self.ip}-mpa{self.revision}-crc{'on' if self.crc else 'off'}{'-p2p' if self.peer_to_peer else ''}"


ALL_CELLS = [Cell(ip, revision, crc) for revision in (2, 1) for crc in (True, False) for ip in (4, 6)]


PEER_TO_PEER_CELLS = [Cell(4, 2, True, True), Cell(6, 2, False, True)]
ROCE_CELLS = [Cell(ip, ROCE, True) for ip in (4, 6)]


def cells_of(pair: str) -> list[Cell]:
    if pair == "rxe-rxe":
        return ROCE_CELLS
    return ALL_CELLS + (PEER_TO_PEER_CELLS if pair.startswith("siw") else [])


# ---- the two kinds of end


class HostEnd:
    """The user-space RNIC in this process's network."""

    transport = "rdmap"

    def __init__(self, kbtp: pathlib.Path, folder: pathlib.Path):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.here = str(folder)
        self._bin = str(kbtp.parent)
        self.addresses = {4: lab.HOST4, 6: lab.HOST6}

    def run(self, command: str) -> tuple[int, str, str]:
        done = subprocess.run(["sh", "-c", command], env=os.environ | {"PATH": f"{self._bin}:{os.environ['PATH']}"}, cwd=self.folder,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False)
        return done.returncode, done.stdout, done.stderr

    def start_target(self, command: str) -> "HostTarget":
        return HostTarget(self, command)

    def path(self) -> str:
        return self._bin


class HostTarget:
    def __init__(self, end: HostEnd, command: str):
        self._log = open(end.folder / "target.log", "ab")
        self._process = subprocess.Popen(["sh", "-c", f"exec {command}"], env=os.environ | {"PATH": f"{end.path()}:{os.environ['PATH']}"},
                                         cwd=end.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._log, text=True)
        assert self._process.stdout is not None
        if not (line := self._process.stdout.readline()).startswith("listening on"):
            raise CellFailed(f"the target did not start: {line}")

    def end(self) -> int:
        self._process.terminate()
        try:
            return self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return -1


class GuestEnd:
    """A guest: siw through the kernel (verbs), or our RNIC again."""

    def __init__(self, guest: lab.Guest, transport: str):
        self.guest, self.transport = guest, transport
        self.folder, self.here = guest.share, "/host"
        self.addresses = {4: guest.address4, 6: guest.address6}

    def run(self, command: str) -> tuple[int, str, str]:
        job = self.guest.run(f"cd /host && {command}", COMMAND_SECONDS)
        assert job.status is not None
        return job.status, job.stdout, job.stderr

    def start_target(self, command: str) -> "GuestTarget":
        return GuestTarget(self.guest.spawn(f"cd /host && exec {command}"))

    def set_siw(self, **parameters: int) -> None:
        text = "; ".join(f"echo {value} > /sys/module/siw/parameters/{name}" for name, value in parameters.items())
        if self.guest.run(text).status != 0:
            raise CellFailed(f"siw's parameters cannot be set: {parameters}")


class GuestTarget:
    def __init__(self, job: lab.Job):
        self._job = job
        job.wait_for_line("listening on", 30)

    def end(self) -> int:
        return self._job.end(20)


# ---- a cell


class CellRun:
    def __init__(self, pair: "Pair", cell: Cell):
        self.pair, self.cell = pair, cell
        self.initiator, self.target = pair.initiator, pair.target
        self.expected = Account()
        self.direct_octets = 0
        host = self.target.addresses[cell.ip]
        self.at = f"'[{host}]:{PORT}'" if cell.ip == 6 else f"{host}:{PORT}"
        self.can_store = pair.can_read(cell)

    def options(self, transport: str, revision: int | None = None) -> str:
        if transport == "verbs":
            return "--transport verbs --allow-for siw" if self.pair.has_siw else "--transport verbs"
        allow = " --allow-for siw" if self.pair.has_siw else ""
        return f"--crc {'on' if self.cell.crc else 'off'} --mpa-revision {revision or self.cell.revision}{allow}"

    def kbtp(self, arguments: str, expect: int = 0, revision: int | None = None) -> str:
        command = f"kbtp {arguments} --target {self.at} {self.options(self.initiator.transport, revision)}"
        status, out, err = self.initiator.run(command)
        if status != expect:
            raise CellFailed(f"'{command}' ended with {status}: {err.strip()[-400:]}")
        return out

    def start_target(self):
        end, cell = self.target, self.cell
        grants = "direct_load = true\n" + ("direct_alloc = true\n" if self.pair.atomics else "")
        (end.folder / "target.toml").write_text(
            f'[[initiator]]\nidentity = "{IDENTITY}"\naddress = "{self.initiator.addresses[cell.ip]}"\nquota = 4\nhandles = 16\nbase_handle = {HANDLE}\n{grants}')
        host = f"[{end.addresses[6]}]" if cell.ip == 6 else end.addresses[4]
        return end.start_target(f"kbtp target --config {end.here}/target.toml --listen '{host}:{PORT}' --metrics {end.addresses[4]}:{METRICS} --network trusted "
                                f"--blocks {BLOCKS} --block-size {BLOCK_SIZE} --handles 64 --reserve 4 --max-sessions 16 {self.options(end.transport)}")

    def block(self, operation: str, handle: int, more: str = "", expect: int = 0, revision: int | None = None) -> str:
        return self.kbtp(f"block {operation} --handle {handle} --identity {IDENTITY} {more}", expect, revision)

    def check_page(self, name: str, expected: bytes) -> None:
        if (self.initiator.folder / name).read_bytes() != expected:
            raise CellFailed(f"{name} is not what was stored")

    def blocks(self) -> None:
        """Each operation by itself. Sizes that are no multiple of anything, so that PAD shows."""
        folder, expected = self.initiator.folder, self.expected
        first, second, short = os.urandom(70001), os.urandom(33333), os.urandom(1023)
        (folder / "first").write_bytes(first)
        (folder / "second").write_bytes(second)
        (folder / "short").write_bytes(short)
        if self.can_store:
            self.block("alloc-store", HANDLE, "--input first")
            expected.expect("ALLOC_STORE")
            expected["written"] += len(first)
            self.block("load", HANDLE, "--allow-unsealed --output out")
            self.check_page("out", first)
            expected.expect("LOAD")
            expected["read"] += len(first)
            self.block("store", HANDLE, "--input second --seal")
            expected.expect("STORE")
            expected["written"] += len(second)
        # Data inside the request: needs no RDMA Read, so MPA revision 1 carries it too.
        self.block("alloc-store", HANDLE + 1, "--inline --input short --seal")
        expected.expect("ALLOC_STORE")
        expected["written"] += len(short)
        for handle, data in ((HANDLE, second), (HANDLE + 1, short)) if self.can_store else ((HANDLE + 1, short),):
            self.block("load", handle, "--output out")
            self.check_page("out", data)
            expected.expect("LOAD")
            expected["read"] += len(data)
            self.block("stat", handle)
            expected.expect("LOAD", status="LENGTH_ERROR")
            if self.pair.direct_load:
                self.block("load", handle, "--direct --output out")
                self.check_page("out", data)
                self.direct_octets += len(data)
            self.block("free", handle)
            expected.expect("FREE")
        self.block("load", HANDLE + 1, "--output out", expect=1)
        expected.expect("LOAD", status="NOT_BOUND")
        if self.pair.atomics:
            self.block("alloc-store", HANDLE + 2, "--direct --input short --seal")
            expected.expect("BIND")
            expected["written"] += len(short)
            self.block("free", HANDLE + 2)
            expected.expect("FREE")

    def loads_of_blocks_stored_before(self) -> None:
        """Where the cell's revision lets the target read nothing: a connection of revision 2 brings what is loaded."""
        for number, (size, _) in enumerate(REPLAYS):
            data = os.urandom(size)
            (self.initiator.folder / "large").write_bytes(data)
            self.pair.prepare(dataclasses.replace(self.cell, revision=2))
            self.block("alloc-store", HANDLE + 3 + number, "--input large --seal", revision=2)
            self.pair.prepare(self.cell)
            self.block("load", HANDLE + 3 + number, "--output out")
            self.check_page("out", data)
            self.expected.expect("ALLOC_STORE")
            self.expected.expect("LOAD")
            self.expected["written"] += size
            self.expected["read"] += size

    def replay(self, size: int, requests: list[list[int]], initiators: int) -> None:
        trace = "".join(json.dumps({"timestamp": number, "input_length": 512 * len(blocks), "output_length": 1, "hash_ids": blocks}) + "\n"
                        for number, blocks in enumerate(requests))
        (self.initiator.folder / "trace.jsonl").write_text(trace)
        out = self.kbtp(f"replay trace.jsonl --block-size {size} --capacity {8 if initiators == 1 else 2 * initiators} --initiators {initiators} --outstanding 4 --json -")
        told = json.loads(next(line for line in out.splitlines() if line.startswith("{")))
        if told["octets_checked"] != told["hits"] * size or told["octets_stored"] != told["misses"] * size:
            raise CellFailed(f"replay contradicts itself: {told}")
        self.expected.expect("LOAD", told["hits"])
        self.expected.expect("ALLOC_STORE", told["misses"])
        self.expected.expect("FREE", told["misses"])
        self.expected["read"] += told["octets_checked"]
        self.expected["written"] += told["octets_stored"]

    def run(self) -> str:
        capture_file = self.pair.out / f"{self.pair.name}-{self.cell}.pcap"
        self.pair.prepare(self.cell)
        target = self.start_target()
        capture = lab.Capture(capture_file, "udp port 4791" if self.cell.revision == ROCE else f"tcp port {PORT}")
        try:
            self.blocks()
            if self.can_store:
                for size, requests in REPLAYS:
                    self.replay(size, requests, 1)
                self.replay(*MANY, 8)
            else:
                self.loads_of_blocks_stored_before()
            counted = counters_of(f"http://{self.target.addresses[4]}:{METRICS}/metrics")
        finally:
            status = target.end()
            dropped = capture.stop()
        problems = [] if status == 0 else [f"the target ended with {status}"]
        if dropped != 0:
            problems.append(f"the capture lost {dropped} frames")
        wire = wire_of(self.pair.kbtp, capture_file)
        problems += wire.findings[:10]
        problems += differences(("the initiator", "the target"), self.expected, counted)
        problems += differences(("the initiator", "the wire"), self.expected, wire.account)
        # Behind the table's entries, which DIRECT_LOAD reads before and after.
        if self.pair.direct_load and wire.direct_octets < self.direct_octets:
            problems.append(f"DIRECT_LOAD of {self.direct_octets} octets, {wire.direct_octets} on the wire")
        if self.cell.revision != ROCE and wire.revisions != ({self.cell.revision} if self.can_store else {1, 2}):
            problems.append(f"MPA revisions {sorted(wire.revisions)} on the wire")
        if self.cell.revision != ROCE and wire.peer_to_peer != {self.cell.peer_to_peer}:
            problems.append("peer-to-peer start-ups on the wire are not as asked for")
        if set(wire.crc) != {"good" if self.cell.crc else "off"}:
            problems.append(f"CRCs on the wire: {dict(wire.crc)}")
        if problems:
            raise CellFailed("; ".join(problems))
        if not self.pair.keep:
            capture_file.unlink()
        operations = sum(count for key, count in counted.items() if isinstance(key, tuple))
        return (f"{operations} operations, {(counted['read'] + counted['written']) / MIB:.1f} MiB, {sum(wire.crc.values())} {'packets' if self.cell.revision == ROCE else 'FPDUs'} in {wire.streams} streams"
                + ("" if self.can_store else "; siw reads nothing without read depths: data came inside requests, or over revision 2"))


# ---- a pair


class Pair:
    def __init__(self, name: str, options: argparse.Namespace, files: lab.Files):
        self.name, self.out, self.kbtp, self.keep = name, options.out, options.kbtp, options.keep
        initiator, target = name.split("-")
        self.has_siw = "siw" in name
        self.atomics = not self.has_siw
        self.direct_load = True
        both = initiator == target != "user"
        # A siw that only answers is the untouched one.
        kernel = {"user-user": "none", "user-siw": "siw", "rxe-rxe": "rxe"}.get(name, "siw-params")
        network = lab.Network(2 if both else 1)

        def boot(number: int, kind: str) -> lab.Guest:
            one = lab.Guest(files, self.out / f"{name}-guest{number}", kind, programs=[self.kbtp], number=number, tap=network.taps[number], log=say)
            one.start()
            say(f"guest {number} ({kind}) is up after {one.boot_seconds:.1f} s")
            return one

        self.guests = [boot(0, kernel)] + ([boot(1, kernel)] if both else [])
        guest_ends = [GuestEnd(one, "rdmap" if kernel == "none" else "verbs") for one in self.guests]
        if both:
            self.initiator, self.target = guest_ends
        elif target == "siw" or not self.has_siw:
            self.initiator, self.target = HostEnd(self.kbtp, self.out / f"{name}-host"), guest_ends[0]
        else:
            self.initiator, self.target = guest_ends[0], HostEnd(self.kbtp, self.out / f"{name}-host")

    def can_read(self, cell: Cell) -> bool:
        """Whether the target can read from the initiator: a revision 1 start-up tells siw no read depths."""
        return cell.revision != 1 or self.name in ("user-user", "siw-user")

    def prepare(self, cell: Cell) -> None:
        for end in (self.initiator, self.target):
            if isinstance(end, GuestEnd) and end.guest.kind == "siw-params":
                # The untouched module's settings, but where this side is the one that must ask.
                asks = end is self.initiator or self.name == "siw-siw"
                end.set_siw(mpa_crc_required=int(asks and cell.crc), peer_to_peer=int(asks and cell.peer_to_peer),
                            mpa_version=cell.revision if end is self.initiator else 2)

    def close(self) -> None:
        for one in self.guests:
            one.collect()
            one.stop()


_table: list[str] = []


def say(text: str) -> None:
    print(text, flush=True)


def row(text: str) -> None:
    """Said, and kept for table.txt."""
    _table.append(text)
    say(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pair", choices=["user-user", "user-siw", "siw-user", "siw-siw", "rxe-rxe"])
    parser.add_argument("--kbtp", type=pathlib.Path, default=lab.ROOT / "build/release/kbtp")
    parser.add_argument("--only", default="*", help="cells, by a pattern such as 'ipv4-mpa2-*'")
    parser.add_argument("--out", type=pathlib.Path, help="folder for logs and for the captures of cells that failed (default: build/lab/runs/...)")
    parser.add_argument("--keep", action="store_true", help="keep every capture")
    options = parser.parse_args()
    options.kbtp = options.kbtp.resolve()
    if reason := contain.why_not():
        say(f"skipped: {reason}")
        return 77
    cells = [cell for cell in cells_of(options.pair) if fnmatch.fnmatch(str(cell), options.only)]
    options.out = lab.run_folder(options.pair, options.out)
    files = lab.prepare()
    contain.contain(with_parent=True)

    started = time.monotonic()
    pair = Pair(options.pair, options, files)
    failed = 0
    for cell in cells:
        begun = time.monotonic()
        try:
            verdict = "ok      " + CellRun(pair, cell).run()
        except (CellFailed, lab.CommandTimeout, subprocess.TimeoutExpired, OSError) as problem:
            failed += 1
            verdict = f"FAILED  {problem}"
        except lab.GuestDied as problem:
            failed += 1
            row(f"{pair.name} {cell}  FAILED  {problem}")
            break
        row(f"{pair.name:9} {str(cell):18} {time.monotonic() - begun:6.1f} s  {verdict}")
    pair.close()
    if pair.has_siw:
        row("what siw cannot carry:")
        for what, why in NOT_CARRIED:
            row(f"  {what}: {why}")
    row(f"{pair.name}: {len(cells) - failed} of {len(cells)} cells in {time.monotonic() - started:.0f} s")
    (options.out / "table.txt").write_text("".join(f"{line}\n" for line in _table))
    return 1 if failed else 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
