#!/usr/bin/env python3
"""Shows whether the kernel's siw places the payload of an FPDU before it has seen the CRC (RFC 5044 3, docs/peers.md).

An RDMA Write is sent to a server in a guest without the last four octets, its CRC. Then the server is asked whether its
memory has changed already. Ends with 0 when nothing was placed, 1 when it was, 3 when nothing was learned, 77 when the lab
does not run here.
"""

import pathlib
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import contain
import guest as lab

PORT = 7471
REQUEST = b"MPA ID Req Frame" + bytes([0x40, 1, 0, 0])  # CRC asked for, revision 1
REPLY_SIZE = 20 + 12


def write_without_crc(address: str) -> socket.socket:
    peer = socket.create_connection((address, PORT), 10)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    peer.sendall(REQUEST)
    reply = peer.recv(REPLY_SIZE, socket.MSG_WAITALL)
    if len(reply) != REPLY_SIZE or reply[16] & 0x60 != 0x40:
        raise ConnectionError(f"not the Reply that was due: {reply.hex()}")
    stag, offset = struct.unpack_from(">IQ", reply, 20)
    time.sleep(0.1)  # siw may leave an FPDU lying that follows the Reply at once
    ulpdu = struct.pack(">BBIQ", 0xC1, 0x40, stag, offset) + b"early octets, 16"
    peer.sendall(struct.pack(">H", len(ulpdu)) + ulpdu)
    return peer


def main() -> int:
    if reason := contain.why_not():
        print(f"not on this machine: {reason}", file=sys.stderr)
        return 77
    files = lab.prepare()
    out = lab.run_folder("siw-early")
    with tempfile.TemporaryDirectory() as folder:
        server = pathlib.Path(folder) / "early_placement"
        source = pathlib.Path(__file__).with_name("early_placement.c")
        subprocess.run(["gcc", "-Wall", "-Wextra", "-Werror", "-O1", "-o", server, source, "-lrdmacm", "-libverbs"], check=True)
        contain.contain()
        lab.Network(1)
        capture = lab.Capture(out / "lab0.pcap", f"tcp port {PORT}")
        machine = lab.Guest(files, out, "siw", programs=[server])
        machine.start()
    try:
        job = machine.spawn(f"early_placement {machine.address4} {PORT}")
        job.wait_for_line("listening on", 20)
        with write_without_crc(machine.address4):
            job.wait_for_line("changed", 5)
        print(f"placed: the memory changed before the CRC was sent ({out}/lab0.pcap)")
        return 1
    except lab.CommandTimeout:
        print("not placed: the memory did not change for 5 seconds in which the CRC was not sent")
        return 0
    except (lab.GuestDied, OSError) as reason:
        print(f"nothing was learned: {reason}; {out}", file=sys.stderr)
        return 3
    finally:
        capture.stop()
        machine.stop()


if __name__ == "__main__":
    sys.exit(main())
