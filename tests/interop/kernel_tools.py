#!/usr/bin/env python3
"""rping, rdma_client and rdma_server in a guest with kernel siw against the user-space RNIC, as server and as client,
and perftest's clients against it.

Each case is captured on the host, and `kbtp dissect` must find every FPDU right and as many operations as both ends
report. exit status: 0 all cases as they should be; 1 some not; 3 the guest died; 77 the lab does not run here.
"""

import argparse
import dataclasses
import json
import pathlib
import re
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import contain
import guest as lab

PORT = 7471
DEADLINE = 60.0
# At its end rping closes the event channel that a thread of its own still reads: all is done, and its status is 255.
RPING_RACE = "rdma_get_cm_event: Bad file descriptor"


@dataclasses.dataclass
class Case:
    name: str
    role: str  # of our side: what kernel_tool_peer is called with
    command: str  # in the guest; {host} and {guest} are addresses
    iterations: int = 0  # of rping
    due: dict[str, int] = dataclasses.field(default_factory=dict)  # messages by name, for what is not rping
    size: int = 64
    crc: bool = False
    v6: bool = False


CASES = [
    Case("rping client in the guest", "rping-server", "rping -c -a {host} -p {port} -C 10 -v -V", 10),
    Case("rping client, 4000 octets, CRC", "rping-server", "rping -c -a {host} -p {port} -C 5 -S 4000 -v -V", 5, 4000, crc=True),
    Case("rping client, IPv6", "rping-server", "rping -c -a {host} -p {port} -C 5 -v -V", 5, v6=True),
    Case("rping server in the guest", "rping-client", "rping -s -a {guest} -p {port} -C 10 -v", 10),
    Case("rping server, 4000 octets, CRC", "rping-client", "rping -s -a {guest} -p {port} -C 5 -S 4000 -v", 5, 4000, crc=True),
    Case("rping server, IPv6", "rping-client", "rping -s -a {guest} -p {port} -C 5 -v", 5, v6=True),
    Case("rdma_client in the guest", "rdma-server", "rdma_client -s {host} -p {port}", due={"Send": 2}),
    Case("rdma_server in the guest", "rdma-client", "rdma_server -s {guest} -p {port}", due={"Send": 2}),
    Case("ib_write_bw client", "bandwidth-server", "ib_write_bw -R -d siw0 -s 4096 -n 20 -p {port} {host}", due={"RDMA Write": 20}),
    Case("ib_read_bw client", "bandwidth-server", "ib_read_bw -R -d siw0 -s 4096 -n 20 -p {port} {host}",
         due={"RDMA Read Request": 20, "RDMA Read Response": 20}),
    Case("ib_send_bw client", "bandwidth-server", "ib_send_bw -R -d siw0 -s 64 -n 20 -p {port} {host}", due={"RDMA Write": 20}),
]


def dissected(kbtp: pathlib.Path, capture: pathlib.Path, case: Case) -> list[str]:
    """What is wrong with the capture."""
    said = subprocess.run([kbtp, "dissect", capture, "-o", "json"], stdout=subprocess.PIPE, text=True, check=False)
    events = [json.loads(line) for line in said.stdout.splitlines()]
    wrong = []
    for event in events:
        for severity, kind in zip(event.get("finding.severity", []), event.get("finding.kind", [])):
            # siw takes the TCP connection down by a reset once both sides have finished.
            if severity != "note" and kind != "reset":
                wrong.append(f"frame {event['frame.number']}: {kind}: {event['finding.text']}")
    fpdus = [event for event in events if event["event"] == "fpdu"]
    crcs = {event["fpdu.crc"] for event in fpdus}
    if crcs != {"good" if case.crc else "off"}:
        wrong.append(f"CRCs are {sorted(crcs)}")

    def count(*names: str) -> int:
        return sum(1 for event in fpdus if event["rdmap.opcode_name"] in names and event.get("ddp.last"))

    due = case.due
    if case.iterations:
        due = {"RDMA Read Request": case.iterations, "RDMA Read Response": case.iterations, "RDMA Write": case.iterations,
               "Send": 4 * case.iterations}
    for name, number in due.items():
        if count(name) != number:
            wrong.append(f"{count(name)} of {name}, {number} are due")
    return wrong


def run_case(case: Case, victim: lab.Guest, peer: pathlib.Path, kbtp: pathlib.Path, out: pathlib.Path, port: int) -> list[str]:
    """What is wrong, nothing when all is right."""
    host, address = (lab.HOST6, victim.address6) if case.v6 else (lab.HOST4, victim.address4)
    command = case.command.format(host=host, guest=address, port=port)
    server = case.role.endswith("server")
    bracketed = f"[{host if server else address}]" if case.v6 else (host if server else address)
    words = [peer, case.role, f"{bracketed}:{port}"]
    words += ["--count", str(case.iterations), "--size", str(case.size)] if case.iterations else []
    words += ["--crc"] if case.crc else []
    file = out / (re.sub(r"\W+", "-", case.name) + ".pcap")
    capture = lab.Capture(file, f"tcp port {port}")
    log = file.with_suffix(".txt")
    ours_wrong = ""
    if server:
        with open(log, "w") as said:
            ours = subprocess.Popen(words, stdout=said, stderr=said)
        deadline = time.monotonic() + DEADLINE
        while "listening on" not in log.read_text() and ours.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        try:
            job = victim.run(command, DEADLINE)
            ours.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            pass  # its status tells
        finally:
            ours.kill()
            ours.wait()
        status, ours_wrong = ours.returncode, log.read_text()
    else:
        job = victim.spawn(command)
        deadline = time.monotonic() + DEADLINE
        while True:  # nothing tells when the tool listens
            tried = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=DEADLINE, check=False)
            status, ours_wrong = tried.returncode, tried.stdout
            if "refused" not in ours_wrong or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        log.write_text(ours_wrong)
        job.wait(DEADLINE)
    capture.stop()
    wrong = [] if status == 0 else [f"our side ended with {status}: {ours_wrong.strip()}"]
    if job.status != 0 and not (command.startswith("rping") and RPING_RACE in job.stderr):
        wrong.append(f"'{command}' ended with {job.status}: {(job.stderr or job.stdout)[-300:].strip()}")
    return wrong + dissected(kbtp, file, case)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", type=pathlib.Path, default=lab.ROOT / "build/release/tests/interop/kernel_tool_peer")
    parser.add_argument("--kbtp", type=pathlib.Path, default=lab.ROOT / "build/release/kbtp")
    parser.add_argument("--out", type=pathlib.Path, help="folder for captures and logs (default: build/lab/runs/...)")
    options = parser.parse_args()
    if reason := contain.why_not():
        print(f"not on this machine: {reason}", file=sys.stderr)
        return 77
    files = lab.prepare()
    out = lab.run_folder("kernel-tools", options.out)
    contain.contain()
    lab.Network(1)
    failed = 0
    victim = lab.Guest(files, out / "a", "siw", log=lambda text: print(text, file=sys.stderr))
    try:
        victim.start()
        for number, case in enumerate(CASES):
            try:
                wrong = run_case(case, victim, options.peer.resolve(), options.kbtp.resolve(), out, PORT + number)
            except lab.CommandTimeout as reason:
                wrong = [str(reason)]
            print(f"{'FAILED' if wrong else 'ok':6} {case.name}", flush=True)
            for text in wrong:
                print(f"         {text}", flush=True)
            failed += bool(wrong)
    except lab.GuestDied as reason:
        print(reason, file=sys.stderr)
        return 3
    finally:
        victim.stop()
    print(f"{len(CASES) - failed} of {len(CASES)} cases are as they should be; captures in {out}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
