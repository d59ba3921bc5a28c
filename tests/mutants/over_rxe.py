#!/usr/bin/env python3
"""Each mutant that is wrong in completion records meets the cases of its rule, between two guests with rxe.

usage: over_rxe.py KBTP KBTP-MUTANT OUT   (ends with 77, a skip, where guests cannot run)

What run.py asks of the other mutants holds here: a check of the rule fails, the smoke set stays green, and every case
of completion records kills some mutant. All mutants serve in one guest at once, each at a port of its own. One that
survives is tried once more, since nothing is learned from a capture that a busy machine has lost frames of.
"""
import json
import pathlib
import subprocess
import sys

import run

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SMOKE = ["kbtp.load.exact-octets", "kbtp.load.invalidate", "kbtp.load.record"]
PORT = 7471
CONFIG = """\
network = "trusted"
blocks = 64
block_size = 65536
handles = 256
reserve = 4
max_inline = 4096
"""


def here_document(path, text):
    return f"cat > {path} <<'END'\n{text}END\n"


def targets(faults):
    """The command of the guest that serves: says one line when all mutants listen."""
    command = here_document("/tmp/target.toml", CONFIG)
    for port, (fault, _) in enumerate(faults, PORT):
        command += f"kbtp-mutant --transport verbs --fault {fault} --config /tmp/target.toml --listen $LAB_SELF:{port} >/tmp/{fault} &\n"
    for fault, _ in faults:
        command += f"until grep -q 'listening on' /tmp/{fault}; do usleep 20000; done\n"
    return command + "echo listening on all ports; wait"


def suites(faults, cases):
    """The command of the guest that the suite runs in."""
    command = here_document("/tmp/profile", (ROOT / "conformance/peers/rxe.profile").read_text())
    for port, (fault, rule) in enumerate(faults, PORT):
        only = " ".join(f"--only {name}" for name in SMOKE + [name for name, rules in cases.items() if rule in rules])
        command += (f"kbtp conform run --transport verbs --target $LAB_OTHER:{port} --capture eth0 --profile /tmp/profile"
                    f" --out /host/report/{fault} {only}\n")
    return command + "true"


def judge(path, rule):
    """(cases that kill it, why not)"""
    if not path.exists():
        return [], "its cases did not run"
    report = json.loads(path.read_text(encoding="utf-8"))
    smoke = {"cases": [case for case in report["cases"] if case["case"] in SMOKE]}
    if sick := run.sick_in(smoke):
        return [], f"the smoke set is not green: {', '.join(sick)}"
    return run.killers_in(report, rule)


def main():
    kbtp, mutant, out = (pathlib.Path(word).resolve() for word in sys.argv[1:4])
    cases = {name: rules for name, rules in run.cases_of(kbtp).items() if name.startswith(run.RECORD_CASES)}
    faults = run.faults_of(mutant, "--list-record-faults")
    outcomes = {}
    for attempt in ("first", "second"):
        left = [(fault, rule) for fault, rule in faults if not outcomes.get(fault, ([], ""))[0]]
        if not left:
            break
        folder = out / attempt
        ended = subprocess.run([sys.executable, ROOT / "tests/interop/lab.py", "rxe", suites(left, cases), "--other", targets(left), "--kbtp", kbtp,
                                "--program", mutant, "--out", folder], check=False)
        if ended.returncode != 0:
            return ended.returncode
        reports = max(folder.glob("a*/share/report"), key=lambda path: path.stat().st_mtime)
        for fault, rule in left:
            outcomes[fault] = judge(reports / fault / "report.json", rule)
    useful = set()
    for fault, rule in faults:
        run.tell(fault, rule, *outcomes[fault])
        useful.update(outcomes[fault][0])
    return run.conclude(sum(bool(killers) for killers, _ in outcomes.values()), len(faults), sorted(set(cases) - useful))


if __name__ == "__main__":
    sys.exit(main())
