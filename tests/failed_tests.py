#!/usr/bin/env python3
"""failed_tests.py JUNIT: what each test that failed in a run of ctest said, in few lines.

A log of CI is read from its end, and often only its end is there to read: `run` prints this last. Of each failed test,
the lines that tell of a failure, or its last lines where none does.
"""

import re
import sys
import xml.etree.ElementTree as ElementTree

TELLING = re.compile(r"FAILED|\bFAIL\b|[Ff]ailure|[Ee]rror|ERROR|WARNING: ThreadSanitizer|Timeout|Traceback|Expected|Actual|Which is|terminate called|booting it once more")
TESTS, LINES, WIDTH = 6, 12, 400


def main() -> int:
    failed = [case for case in ElementTree.parse(sys.argv[1]).iter("testcase") if case.get("status") == "fail"]
    for case in failed[:TESTS]:
        problem = case.find("failure")
        print(f"{case.get('name')}, {float(case.get('time', 0)):.0f} s: {problem.get('message', '') if problem is not None else ''}")
        lines = [line for line in (case.findtext("system-out") or "").splitlines() if line.strip()]
        for line in ([line for line in lines if TELLING.search(line)] or lines)[-LINES:]:
            print(f"  {line[:WIDTH]}")
    if len(failed) > TESTS:
        print(f"and {len(failed) - TESTS} more: {' '.join(str(case.get('name')) for case in failed[TESTS:])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
