#!/usr/bin/env python3
"""`kbtp conform` as a user meets it: a whole run against the embedded target, its files, and wrong command lines.

usage: run_test.py KBTP lo|none   (ends with 77, a skip, where capture is asked for and not permitted)
"""
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET

KBTP, CAPTURE = sys.argv[1:3]


def kbtp(*words):
    return subprocess.run([KBTP, "conform", *words], capture_output=True, text=True, timeout=500)


def expect(good, what):
    if not good:
        print(f"FAILED: {what}")
        sys.exit(1)


def whole_run(folder):
    ended = kbtp("run", "--out", folder, "--capture", CAPTURE)
    if CAPTURE != "none" and ended.returncode == 3 and re.search("CAP_NET_RAW|permi", ended.stderr):
        print(f"skipped: {ended.stderr.strip()}")
        sys.exit(77)
    print(ended.stdout[-2000:], ended.stderr[-2000:])
    expect(ended.returncode == 0, f"the embedded target passes, status {ended.returncode}")
    with open(f"{folder}/report.json", encoding="utf-8") as file:
        report = json.load(file)
    for case in report["cases"]:
        name = case["case"]
        expect(case["state"] in ("pass", "pass-weak", "skip"), f"{name}: {case['state']}")
        expect({check["rule"] for check in case["checks"]} <= set(case["rules"]), f"{name} checks rules that it does not name")
        with open(f"{folder}/{name}/verdict.json", encoding="utf-8") as file:
            expect(json.load(file) == case, f"{name}: verdict.json and report.json differ")
        records = name.startswith("kbtp.record.")
        expect((case["state"] == "skip") == records, f"{name}: what RDMAP does not have, and nothing else, is skipped: {case['why']}")
        if records:
            continue
        if CAPTURE == "none":
            expect("none" in case["judged_from"], f"{name} says that nothing was captured")
            continue
        with open(f"{folder}/{name}/trace.pcap", "rb") as file:
            expect(file.read(4).hex() in ("a1b23c4d", "a1b2c3d4", "d4c3b2a1", "4d3cb2a1"), f"{name}/trace.pcap is a capture")
        for check in case["checks"]:
            expect(all(1 <= frame <= case["frames"] for frame in check["frames"]), f"{name}: frame numbers of the trace")
        expect(any(check["frames"] for check in case["checks"]), f"{name} names the frames that show it")
    rules = {check["rule"] for case in report["cases"] for check in case["checks"]}
    expect(len(rules) >= 15 and sum(rule.startswith("KBTP-") for rule in rules) >= 8, "15 rules, 8 of them KBTP's")
    suite = ET.parse(f"{folder}/junit.xml").getroot().find("testsuite")
    expect(int(suite.get("tests")) == len(report["cases"]), "junit.xml counts the cases")
    for name in ("report.html", "report.md"):
        expect(os.path.getsize(f"{folder}/{name}") > 1000, name)


def known_deviations(scratch):
    """A run that is told what to expect, of a target that refuses markers only in the file."""
    path = f"{scratch}/x.expect"
    base = ["run", "--capture", "none", "--only", "mpa.markers", "--only", "mpa.request.enhanced", "--out", f"{scratch}/e"]
    with open(path, "w", encoding="utf-8") as file:
        file.write("mpa.markers fail markers-refused RFC5044-4.3-01 # was so once\n")
    stale = kbtp(*base, "--expect", path, "--write-expect", f"{scratch}/y.expect")
    expect(stale.returncode == 1 and "unexpected-pass" in stale.stdout, "a deviation that is gone ends with 1")
    with open(f"{scratch}/e/report.json", encoding="utf-8") as file:
        told = {case["case"]: case for case in json.load(file)["cases"]}
    expect(told["mpa.markers"]["deviation"] == "markers-refused", "reports name the deviation")
    with open(f"{scratch}/y.expect", encoding="utf-8") as file:
        expect("mpa.markers" not in file.read(), "--write-expect drops what passes")
    expect(kbtp(*base, "--expect", f"{scratch}/y.expect").returncode == 0, "what was written is as expected next time")
    with open(path, "a", encoding="utf-8") as file:
        file.write("mpa.marker fail x RFC5044-4.3-01\n")
    unknown = kbtp(*base, "--expect", path)
    expect(unknown.returncode == 2 and "x.expect:2" in unknown.stderr, "an entry for no case ends with 2 and its line")
    with open(f"{scratch}/x.profile", "w", encoding="utf-8") as file:
        file.write('name = "x"\n[assignment.opcodes]\nHELLO = 0x44\n')
    other = kbtp(*base, "--profile", f"{scratch}/x.profile")
    expect(other.returncode == 3 and "HELLO" in other.stderr, "a profile's opcodes are used")


def shipped_files():
    """The files of known peers are ones that the suite takes."""
    peers = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers")
    for name in sorted(os.listdir(peers)):
        option = {".expect": "--expect", ".profile": "--profile"}[os.path.splitext(name)[1]]
        ended = kbtp("run", "--capture", "none", "--only", "mpa.pad-octets", "--out", tempfile.mkdtemp(), option, os.path.join(peers, name))
        expect(ended.returncode == 0, f"{name}: {ended.stderr}")


def wrong_ways():
    expect(kbtp("run", "--only", "nothing.*").returncode == 2, "a selection that selects nothing ends with 2")
    unknown = kbtp("explain", "KBTP-6.1-3")
    expect(unknown.returncode == 2 and "KBTP-6.1-03" in unknown.stderr, "an unknown rule ends with 2 and near matches")
    for words, why in ((["--transport", "verbs"], "--target"),
                       (["--transport", "verbs", "--target", "127.0.0.1:1", "--capture", "none"], "--capture"),
                       (["--device", "rxe0"], "--transport verbs"), (["--over", "rxe", "--transport", "verbs"], "--transport")):
        ended = kbtp("run", *words)
        expect(ended.returncode == 2 and why in ended.stderr, f"{words} end with 2: {ended.stderr}")
    known = kbtp("explain", "kbtp-6.1-03")
    expect(known.returncode == 0 and "How it is tested" in known.stdout, "explain")
    listed = kbtp("list")
    expect(listed.returncode == 0 and len(listed.stdout.splitlines()) >= 30, "list")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    closed = kbtp("run", "--target", f"127.0.0.1:{port}", "--capture", "none", "--out", tempfile.mkdtemp())
    expect(closed.returncode == 3 and "TCP" in closed.stderr, "nobody there ends with 3 and the phase")
    silent = kbtp("run", "--target-cmd", "echo hello", "--capture", "none", "--out", tempfile.mkdtemp())
    expect(silent.returncode == 3, "a command that does not listen ends with 3")


with tempfile.TemporaryDirectory() as scratch:
    whole_run(scratch)
    known_deviations(scratch)
shipped_files()
wrong_ways()
