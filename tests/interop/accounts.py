"""What happened in a run of KBTP, by three accounts: the target's counters, the initiator's own, and the wire's.

The wire's is what `kbtp dissect` says in JSON lines, added up here; dissect matches answers with their requests.
"""

import collections
import dataclasses
import json
import pathlib
import re
import subprocess
import urllib.request

AGAIN = ("repeated",)  # RoCE: a packet sent again


class Account(collections.Counter):
    """What happened: (operation, status) -> how often, and "read" / "written" -> octets of block data to and from the initiator."""

    def expect(self, operation: str, count: int = 1, status: str = "SUCCESS") -> None:
        self[operation, status] += count


def counters_of(url: str) -> Account:
    """The target's, from its metrics."""
    text = urllib.request.urlopen(url, timeout=20).read().decode()
    account = Account()
    for operation, status, value in re.findall(r'kbtp_operations_total\{operation="(\w+)",status="(\w+)"\} (\d+)', text):
        account[operation, status] += int(value)
    for operation, value in re.findall(r'kbtp_block_octets_total\{operation="(\w+)"\} (\d+)', text):
        account["read" if operation == "LOAD" else "written"] += int(value)
    return account


@dataclasses.dataclass
class Wire:
    account: Account
    direct_octets: int = 0
    crc: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    revisions: set[int] = dataclasses.field(default_factory=set)
    peer_to_peer: set[bool] = dataclasses.field(default_factory=set)
    streams: int = 0
    findings: list[str] = dataclasses.field(default_factory=list)


def wire_of(kbtp: pathlib.Path, capture: pathlib.Path) -> Wire:
    """What dissect says, added up from its JSON lines. Answers are matched with their requests by dissect itself."""
    wire = Wire(Account())
    dissect = subprocess.Popen([kbtp, "dissect", str(capture), "-o", "json"], stdout=subprocess.PIPE, text=True)
    assert dissect.stdout is not None
    streams = set()
    inline = {}
    for line in dissect.stdout:
        event = json.loads(line)
        streams.add(event.get("stream"))
        for kind in ("bad-startup", "missing", "note"):
            if event["event"] == kind:
                wire.findings.append(line.strip()[:300])
        for word in ("fpdu.error", "mpa.error"):
            if word in event:
                wire.findings.append(f"frame {event['frame.number']}: {event[word]}")
        for severity, kind, text in zip(*(event.get(f"finding.{part}", []) for part in ("severity", "kind", "text"))):
            # A status other than SUCCESS is worth a word; whether it is the right one is the accounts' matter.
            if not (kind == "refused" and "kbtp.status_name" in event):
                wire.findings.append(f"frame {event['frame.number']}: {severity}: {text}")
        if event["event"] == "startup":
            wire.revisions.add(event["mpa.revision"])
            wire.peer_to_peer.add(event.get("mpa.peer_to_peer", False))
        elif event["event"] == "fpdu":
            wire.crc[event["fpdu.crc"]] += 1
            if event.get("fpdu.extent") != "whole":
                wire.findings.append(f"frame {event['frame.number']}: {event['fpdu.extent']}")
            opcode, octets = event.get("rdmap.opcode_name"), event.get("rdmap.length", 0)
            if "terminate.layer" in event:
                wire.findings.append(f"frame {event['frame.number']}: Terminate {event.get('terminate.meaning')}")
            if opcode == "RDMA Write":
                wire.account["read" if event["from"] == "server" else "written"] += octets
            elif opcode == "RDMA Read Response":
                if event["from"] == "client":
                    wire.account["written"] += octets
                else:
                    wire.direct_octets += octets
        elif event["event"] == "ib-packet":
            wire.crc[event["ib.icrc"]] += 1
            opcode, octets = event.get("ib.bth.opcode_name", ""), event.get("ib.payload_length", 0)
            if event.get("ib.order") in AGAIN:
                continue
            if "RDMA WRITE" in opcode.upper():
                wire.account["read" if event["from"] == "server" else "written"] += octets
            elif "RDMA READ RESPONSE" in opcode.upper():
                wire.account["written" if event["from"] == "client" else "direct"] += octets
        elif event["event"] == "message" and "kbtp.op_name" in event:
            operation = event["kbtp.op_name"]
            key = (event["stream"], event["kbtp.request_id"])
            if operation == "COMPLETION":
                wire.account[event.get("analysis.request_op", "unasked"), event["kbtp.status_name"]] += 1
            elif "kbtp.inline_length" in event:
                inline[key] = int(event["kbtp.inline_length"])
    if dissect.wait() != 0:
        wire.findings.append(f"kbtp dissect ended with {dissect.returncode}")
    wire.account["written"] += sum(inline.values())
    wire.direct_octets += wire.account.pop("direct", 0)
    wire.streams = len(streams - {None})
    return wire


def differences(names: tuple[str, str], one: Account, two: Account) -> list[str]:
    return [f"{' '.join(key) if isinstance(key, tuple) else 'octets ' + key}: {names[0]} {one[key]}, {names[1]} {two[key]}"
            for key in sorted(set(one) | set(two), key=str) if one[key] != two[key]]
