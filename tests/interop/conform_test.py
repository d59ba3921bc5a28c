#!/usr/bin/env python3
"""The conformance suite over the kernel's siw: all as expected, with the proof of each deviation in its place.

usage: conform_test.py KBTP OUT   (ends with 77, a skip, where guests cannot run)
"""

import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import contain


def expect(good: bool, what: str) -> None:
    if not good:
        sys.exit(f"FAILED: {what}")


def main() -> int:
    kbtp, out = sys.argv[1], pathlib.Path(sys.argv[2])
    if reason := contain.why_not():
        print(f"skipped: {reason}")
        return 77
    ended = subprocess.run([kbtp, "conform", "run", "--over", "siw", "--out", out], check=False)
    expect(ended.returncode == 0, f"kbtp conform run --over siw ended with {ended.returncode}")
    report = json.loads((out / "report.json").read_text())
    states = [case["state"] for case in report["cases"]]
    decided = [state for state in states if state in ("pass", "pass-weak", "expected-fail", "unsupported")]
    expect(len(decided) >= 60, f"{len(decided)} cases have a verdict")
    expect(states.count("expected-fail") >= 12, "the suite finds siw's known defects")
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
