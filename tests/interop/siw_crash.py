#!/usr/bin/env python3
"""Sends one of the two MPA Replies that crash the kernel of a connecting siw, to a guest made for it.

Part of no test run and of no conformance run: called by hand, to see whether a kernel still has the defect
(docs/peers.md). The guest connects with rping; its kernel's last words are printed.
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


def answer(reply: bytes) -> None:
    with socket.create_server((lab.HOST4, PORT)) as server:
        connection, _ = server.accept()
        with connection:
            connection.recv(REQUEST_SIZE, socket.MSG_WAITALL)
            connection.sendall(reply)
            time.sleep(30)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="exit status: 0 the kernel survived; 1 it crashed; 3 nothing was learned; 77 the lab does not run here")
    parser.add_argument("reply", choices=sorted(REPLIES))
    parser.add_argument("--out", type=pathlib.Path, help="folder for the serial output (default: build/lab/runs/...)")
    options = parser.parse_args()
    if reason := contain.why_not():
        print(f"not on this machine: {reason}", file=sys.stderr)
        return 77
    files = lab.prepare()
    out = (options.out or lab.CACHE / "runs" / f"siw-crash-{options.reply}-{time.strftime('%H%M%S')}").resolve()
    out.mkdir(parents=True, exist_ok=True)
    contain.contain()
    lab.Network(1)
    victim = lab.Guest(files, out, "siw")
    victim.start()
    threading.Thread(target=answer, args=(REPLIES[options.reply],), daemon=True).start()
    time.sleep(0.5)
    try:
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
