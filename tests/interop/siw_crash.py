#!/usr/bin/env python3
"""Does one of the things that crash the kernel of a siw, to a guest made for it.

Two are MPA Replies to a siw that connects (the guest runs rping). The third is a connection to a siw that listens: a
Request for peer-to-peer mode, and the end of the connection after the Reply, before the RTR.

Part of no test run and of no conformance run: called by hand, to see whether a kernel still has the defect
(docs/peers.md). The kernel's last words are printed.
"""

import argparse
import pathlib
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import contain
import guest as lab

PORT = 7471
KEY = b"MPA ID Rep Frame"
REQUEST_SIZE = 24  # of siw: header and the four enhanced octets
REPLIES = {
    # RFC 6581 6: with S set the four enhanced octets are there; here they are not.
    "no-enhanced-fields": KEY + bytes([0x10, 2, 0, 0]),
    # RFC 5044 7.1.1: up to 512 octets of Private Data are legal.
    "private-data-512": KEY + bytes([0x10, 2, 2, 0]) + bytes([0, 1, 0, 1]) + bytes(508),
}
# RFC 6581 4.4, 9.2: A and B, IRD 16; C and D, ORD 16: the Reply chooses among the three RTRs, and one of them has to come.
PEER_TO_PEER_REQUEST = b"MPA ID Req Frame" + bytes([0x10, 2, 0, 4]) + bytes([0xC0, 16, 0xC0, 16])
CLOSE_BEFORE_RTR = "close-before-rtr"


def answer(reply: bytes) -> None:
    with socket.create_server((lab.HOST4, PORT)) as server:
        connection, _ = server.accept()
        with connection:
            connection.recv(REQUEST_SIZE, socket.MSG_WAITALL)
            connection.sendall(reply)
            time.sleep(30)


def connect_and_close(address: str) -> None:
    for _ in range(50):
        try:
            with socket.create_connection((address, PORT), 5) as connection:
                connection.sendall(PEER_TO_PEER_REQUEST)
                connection.recv(REQUEST_SIZE, socket.MSG_WAITALL)
                return
        except ConnectionRefusedError:
            time.sleep(0.1)
    raise lab.CommandTimeout("nobody listens in the guest")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="exit status: 0 the kernel survived; 1 it crashed; 3 nothing was learned; 77 the lab does not run here")
    parser.add_argument("what", choices=[*sorted(REPLIES), CLOSE_BEFORE_RTR])
    parser.add_argument("--out", type=pathlib.Path, help="folder for the serial output (default: build/lab/runs/...)")
    options = parser.parse_args()
    if reason := contain.why_not():
        print(f"not on this machine: {reason}", file=sys.stderr)
        return 77
    files = lab.prepare()
    out = lab.run_folder(f"siw-crash-{options.what}", options.out)
    contain.contain()
    lab.Network(1)
    victim = lab.Guest(files, out, "siw")
    victim.start()
    try:
        if options.what == CLOSE_BEFORE_RTR:
            job = victim.spawn(f"rping -s -a {victim.address4} -p {PORT} -C 1")
            connect_and_close(victim.address4)
        else:
            threading.Thread(target=answer, args=(REPLIES[options.what],), daemon=True).start()
            time.sleep(0.5)
            job = victim.spawn(f"rping -c -a {lab.HOST4} -p {PORT} -C 1")
        job.wait(20)
        time.sleep(1)
        victim.run("true", 5)
    except lab.GuestDied as reason:
        print(f"the guest's kernel crashed: {reason}")
        return 1
    except lab.CommandTimeout as reason:
        print(f"the guest neither crashed nor went on: {reason}; {out}", file=sys.stderr)
        return 3
    finally:
        victim.stop()
    print(f"the guest's kernel survived; rping ended with {job.status}: {job.stderr.strip()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
