#!/usr/bin/env python3
"""The conformance suite over a kernel's RDMA device: all as expected, with the proof of each deviation in its place.

usage: conform_test.py siw|rxe KBTP OUT   (ends with 77, a skip, where guests cannot run)
"""

import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import contain

DECIDED = ("pass", "pass-weak", "expected-fail", "unsupported")


def expect(good: bool, what: str) -> None:
    if not good:
        sys.exit(f"FAILED: {what}")


def over_siw(states: list[str], out: pathlib.Path) -> None:
    expect(sum(state in DECIDED for state in states) >= 60, "60 cases have a verdict")
    expect(states.count("expected-fail") >= 12, "the suite finds siw's known defects")
    logs = [log.read_text(errors="replace") for log in out.glob("lab/a*/share/jobs/*/stderr")]
    expect(any("ended" in log or "HELLO" in log for log in logs), "the target's log is there")
    expect(not any("fault of this program" in log for log in logs), "no end of a connection is called a fault of the program")


def over_rxe(report: dict, kbtp: str, out: pathlib.Path) -> None:
    """KBTP went over RoCE, and what cannot is skipped with its reason."""
    played = [case for case in report["cases"] if case["state"] in DECIDED]
    expect(len(played) >= 30, f"{len(played)} cases have a verdict")
    for case in report["cases"]:
        if case["case"].split(".")[0] != "kbtp":
            expect(case["state"] == "skip" and "raw iWARP peer" in case["why"], f"{case['case']} is skipped with its reason")
    records = [case["state"] for case in report["cases"] if case["case"].startswith("kbtp.record.")]
    expect(len(records) >= 8 and set(records) == {"pass"}, f"completion records are right: {records}")
    for case in played:
        expect(any(check["frames"] for check in case["checks"]), f"{case['case']} names the frames that show it")
    invalidate = subprocess.run([kbtp, "dissect", out / "kbtp.load.invalidate/trace.pcap", "-o", "json"], check=True, stdout=subprocess.PIPE, text=True)
    packets = [event for event in map(json.loads, invalidate.stdout.splitlines()) if event["event"] == "ib-packet"]
    expect(len(packets) > 20 and all(packet["ib.icrc"] == "good" for packet in packets), "the traces hold whole RoCE packets")
    expect(any("ib.ieth.r_key" in packet for packet in packets), "a Send with Invalidate was seen")


def main() -> int:
    peer, kbtp, out = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    if reason := contain.why_not():
        print(f"skipped: {reason}")
        return 77
    command = [kbtp, "conform", "run", "--over", peer, "--out", out]
    if peer == "rxe":  # 131,000 messages between two emulated guests: a minute or two for one rule that siw's run has too
        command += ["--exclude", "kbtp.generation.wraps"]
    ended = subprocess.run(command, check=False)
    expect(ended.returncode == 0, f"kbtp conform run --over {peer} ended with {ended.returncode}")
    report = json.loads((out / "report.json").read_text())
    if peer == "siw":
        over_siw([case["state"] for case in report["cases"]], out)
    else:
        over_rxe(report, kbtp, out)
    told = (HERE.parent.parent / "docs/peers.md").read_text()
    for case in report["cases"]:
        if not case["deviation"]:
            continue
        expect(f"`{case['deviation']}`" in told, f"docs/peers.md tells of {case['deviation']}")
        expect(f"`{case['case']}`" in told, f"docs/peers.md names {case['case']}")
        expect((out / case["trace"]).stat().st_size > 24, f"{case['case']} has its capture")
    return 0


if __name__ == "__main__":
    sys.exit(main())
