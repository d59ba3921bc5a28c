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


def wrong_ways():
    expect(kbtp("run", "--only", "nothing.*").returncode == 2, "a selection that selects nothing ends with 2")
    unknown = kbtp("explain", "KBTP-6.1-3")
    expect(unknown.returncode == 2 and "KBTP-6.1-03" in unknown.stderr, "an unknown rule ends with 2 and near matches")
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
wrong_ways()
