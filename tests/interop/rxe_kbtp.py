#!/usr/bin/env python3
"""KBTP 9.2 between two kernel rxe guests: every operation, by messages and by records, INVALIDATE through memory
windows, DIRECT_ALLOC with unmasked counters. The capture has to hold each of them, with every ICRC right.

  rxe_kbtp.py --kbtp build/release/kbtp --peer build/release/ib_binding/rxe_peer --out FOLDER
"""

import argparse
import base64
import collections
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
IDENTITY = "123e4567-e89b-12d3-a456-426614174000"
PORT = 7471
TARGET = f"""\
listen = "0.0.0.0:{PORT}"
transport = "verbs"
network = "trusted"
blocks = 64
block_size = 65536
[[initiator]]
identity = "{IDENTITY}"
address = "10.77.0.2"
quota = 16
handles = 32
direct_load = true
direct_alloc = true
"""
# What rxe_peer does: two sessions, in each of which three sizes and forty direct allocations.
EXPECTED = {
    "Send Only with Invalidate": 2 * 3 * 4,  # a STORE and three LOADs
    "RDMA Write Only with Immediate": 3 * 3 + 40 * 2,  # ALLOC_STORE, LOAD, FREE; BIND, FREE: of the one with records
    "FetchAdd": 2 * (1 + 40),  # the probe (G-36)
}


def run(options: argparse.Namespace) -> int:
    text = base64.b64encode(TARGET.encode()).decode()
    target = f"echo {text} | base64 -d > /tmp/target.toml; kbtp target --config /tmp/target.toml"
    return subprocess.run([sys.executable, HERE / "lab.py", "rxe", f"rxe_peer $LAB_OTHER {PORT} {IDENTITY}", "--other", target,
                           "--kbtp", options.kbtp, "--program", options.peer, "--out", options.out, "--capture", "ip"],
                          check=False).returncode


def look(options: argparse.Namespace) -> list[str]:
    """What the capture lacks, or has too much."""
    dissect = [options.kbtp, "dissect", options.out / "lab0.pcap", "-o"]
    wrong = []
    records = 0  # Writes that the analysis has taken for the end of a request
    opcodes: collections.Counter[str] = collections.Counter()
    asked: dict[int, set[int]] = collections.defaultdict(set)  # by stream: STags of requests with INVALIDATE
    revoked: dict[int, list[int]] = collections.defaultdict(list)
    lines = subprocess.run([*dissect, "json"], check=True, stdout=subprocess.PIPE, text=True).stdout
    for line in lines.splitlines():
        event = json.loads(line)
        if "INVALIDATE" in event.get("kbtp.flags_name", ""):
            asked[event["stream"]].add(event["kbtp.data.stag"])
        if event["event"] != "ib-packet":
            continue
        opcodes[event["ib.bth.opcode_name"]] += 1
        if event.get("analysis.record_status") == "SUCCESS":
            records += 1
        if event["ib.icrc"] != "good":
            wrong.append(f"frame {event['frame.number']}: the ICRC is {event['ib.icrc']}")
        if "ib.ieth.r_key" in event:
            revoked[event["stream"]].append(event["ib.ieth.r_key"])
    for name, count in EXPECTED.items():
        if opcodes[name] != count:
            wrong.append(f"{opcodes[name]} times {name}, and it has to be {count}")
    if records != EXPECTED["RDMA Write Only with Immediate"]:
        wrong.append(f"{records} requests are seen to end by a completion record")
    for stream, keys in revoked.items():
        if strange := set(keys) - asked[stream]:
            wrong.append(f"conversation {stream}: keys {strange} are invalidated and nobody has asked for it")
    summary = subprocess.run([*dissect, "summary"], check=True, stdout=subprocess.PIPE, text=True).stdout
    if "nothing was found wrong" not in summary:
        wrong.append(summary)
    print(f"{sum(opcodes.values())} packets; " + ", ".join(f"{opcodes[name]} {name}" for name in EXPECTED))
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kbtp", type=pathlib.Path, required=True)
    parser.add_argument("--peer", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()
    if status := run(options):
        return status
    wrong = look(options)
    for text in wrong:
        print(text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
