#!/usr/bin/env python3
"""Each mutant meets the cases that name its rule, and a small smoke set.

usage: run.py KBTP KBTP-MUTANT [FAULT...]

A mutant is killed when a case that names its rule fails, one of the failed checks is of that rule, and the smoke
set stays green against the very same mutant: a target that crashes or serves nobody is no kill. Every case must be
what kills some mutant; those of completion records are over_rxe.py's. The last line is "mutants: KILLED/TOTAL killed"; the status is 0 when all of both hold.
Nothing is captured here, so no privilege is needed; what capture adds to a verdict is tested elsewhere.
"""
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

RECORD_CASES = "kbtp.record."  # how the names of those begin

# Each ends with the control exchange: HELLO, ALLOC_STORE, LOAD, FREE.
SMOKE = ["mpa.request.enhanced", "kbtp.hello.no-record-completion", "mpa.request.revision-1"]


def cases_of(kbtp):
    """Rules by case."""
    cases = {}
    for line in subprocess.run([kbtp, "conform", "list"], check=True, capture_output=True, text=True).stdout.splitlines():
        words = line.split()
        cases[words[0]] = [word for word in words[1:] if word.startswith(("KBTP-", "RFC", "G-"))]
    return cases


def faults_of(mutant, which):
    """(fault, rule) of one of the mutant's lists."""
    return [line.split() for line in subprocess.run([mutant, which], check=True, capture_output=True, text=True).stdout.splitlines()]


def sick_in(report):
    """What is not green in the report of a smoke set."""
    return [case["case"] for case in report["cases"] if case["state"] not in ("pass", "pass-weak")]


def killers_in(report, rule):
    """(cases that kill the mutant that breaks this rule, why not)"""
    killers = [case["case"] for case in report["cases"] if case["state"] == "fail" and
               any(check["rule"] == rule and check["state"] == "fail" for check in case["checks"])]
    states = ", ".join(f"{case['case']} {case['state']}" for case in report["cases"])
    return killers, "" if killers else f"survives: {states}"


def tell(fault, rule, killers, why):
    print(f"{'killed ' if killers else 'ALIVE  '} {fault:<34} {rule:<18} {', '.join(killers) or why}", flush=True)


def conclude(killed, total, idle):
    for name in idle:
        print(f"no mutant is killed by {name}")
    print(f"mutants: {killed}/{total} killed")
    return 0 if killed == total and not idle else 1


def run(kbtp, mutant, fault, only, folder):
    """The report of a run of some cases against the mutant, or None when there was none."""
    command = [kbtp, "conform", "run", "--capture", "none", "--out", folder,
               "--target-cmd", f"exec {mutant} --fault {fault} --listen 127.0.0.1:0 --config {{config}}"]
    for name in only:
        command += ["--only", name]
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    path = os.path.join(folder, "report.json")
    if not os.path.exists(path):
        return None, ended.stdout.strip().splitlines()[-1:]
    with open(path, encoding="utf-8") as file:
        return json.load(file), []


def judge(kbtp, mutant, fault, rule, cases):
    """(cases that kill it, why not)"""
    names = [name for name, rules in cases.items() if rule in rules]
    if not names:
        return [], f"no case names {rule}"
    with tempfile.TemporaryDirectory() as folder:
        # The smoke set leaves out what the mutant is meant to fail.
        smoke = [name for name in SMOKE if name not in names]
        report, said = run(kbtp, mutant, fault, smoke, os.path.join(folder, "smoke"))
        if report is None:
            return [], f"the smoke set did not run: {said}"
        if sick := sick_in(report):
            return [], f"the smoke set is not green: {', '.join(sick)}"
        report, said = run(kbtp, mutant, fault, names, os.path.join(folder, "rule"))
        if report is None:
            return [], f"its cases did not run: {said}"
        return killers_in(report, rule)


def main():
    kbtp, mutant = sys.argv[1:3]
    wanted = sys.argv[3:]
    cases = {name: rules for name, rules in cases_of(kbtp).items() if not name.startswith(RECORD_CASES)}
    faults = faults_of(mutant, "--list-faults")
    if wanted:
        faults = [fault for fault in faults if fault[0] in wanted]
    killed = 0
    useful = set()
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        outcomes = pool.map(lambda fault: (fault, judge(kbtp, mutant, fault[0], fault[1], cases)), faults)
        for (fault, rule), (killers, why) in outcomes:
            killed += bool(killers)
            useful.update(killers)
            tell(fault, rule, killers, why)
    return conclude(killed, len(faults), [] if wanted else sorted(set(cases) - useful))


if __name__ == "__main__":
    sys.exit(main())
