#!/usr/bin/env python3
"""lab_test.py [KBTP]: the lab as its users call it. Ends with 0, 1 or 77."""

import fcntl
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import contain
import guest

KBTP = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parent.parent / "build/release/kbtp"
SECONDS = 240


def lab(*arguments: str) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as out:
        return subprocess.run([HERE / "lab.py", *arguments, "--kbtp", str(KBTP), "--out", out], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=SECONDS, check=False)


def status_and_output_are_the_commands() -> None:
    done = lab("siw", "echo out; echo err >&2; ibv_devices; exit 7")
    assert done.returncode == 7, done
    assert done.stdout.startswith("out\n") and "siw0" in done.stdout, done.stdout
    assert "err\n" in done.stderr, done.stderr


def guest_has_our_program_and_both_addresses() -> None:
    done = lab("siw", "kbtp --version; ping -c 1 $LAB_HOST; ping6 -c 1 $LAB_HOST6")
    assert done.returncode == 0, done
    assert done.stdout.startswith("kbtp "), done.stdout


def guest_that_dies_is_told_of_and_tried_once_more() -> None:
    done = lab("siw", "echo c > /proc/sysrq-trigger; sleep 60")
    assert done.returncode == 3, done
    told = [line for line in done.stderr.splitlines() if "is gone" in line]
    assert len(told) == 2 and "panic" in told[0] and "once more" in told[0] and "once more" not in told[1], done.stderr
    assert len(re.findall("guest is up", done.stderr)) == 2, done.stderr


def host_command_runs_beside_the_guests_and_ends_it() -> None:
    done = lab("siw", "echo listening on something; sleep 300", "--host", "busybox ping -c 1 $LAB_GUEST && ip -br addr show $LAB_INTERFACE; exit 5")
    assert done.returncode == 5, done
    assert "lab0" in done.stdout and "the guest's command ended with 143" in done.stderr, done


def without_a_command_a_target_answers_on_loopback() -> None:
    with tempfile.TemporaryDirectory() as out:
        running = subprocess.Popen([HERE / "lab.py", "siw", "--kbtp", str(KBTP), "--out", out], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            assert running.stderr is not None
            said = ""
            for line in running.stderr:
                said += line
                if found := re.search(r"the target is at (127\.0\.0\.1:\d+)", line):
                    break
            else:
                raise AssertionError(said)
            # Through the relay a segment is not an FPDU any more: no CRC, which siw would take for wrong.
            done = subprocess.run([KBTP, "block", "stat", "--handle", "1", "--target", found[1], "--crc", "off", "--allow-for", "siw"],
                                  capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 1 and re.search("NOT_BOUND|NO_SUCH_HANDLE", done.stderr), done
        finally:
            running.terminate()
            running.wait()


def two_guests_reach_each_other() -> None:
    listening = "until rdma resource show cm_id | grep -q LISTEN; do usleep 20000; done; echo listening on it"
    done = lab("rxe", "rping -c -a $LAB_OTHER -C 2 -v", "--other", f"rping -s -a $LAB_SELF -C 2 & {listening}; wait")
    # Not rping's status: at its end it closes the event channel that a thread of its own still reads, and ends with 255 now and then.
    assert done.stdout.count("ping data") == 2, done


def old_runs_go_and_those_in_use_stay() -> None:
    with tempfile.TemporaryDirectory() as name:
        runs = pathlib.Path(name)
        for number in range(15):
            (runs / f"old-{number}" / "a").mkdir(parents=True)
            os.utime(runs / f"old-{number}", (number, number))
        used = os.open(runs / "old-0", os.O_RDONLY)
        fcntl.flock(used, fcntl.LOCK_SH)
        new = guest.run_folder("new", runs=runs)
        left = sorted(path.name for path in runs.iterdir())
        assert left == sorted([new.name, "old-0"] + [f"old-{number}" for number in range(6, 15)]), left
        os.close(used)
        guest.run_folder("newer", runs=runs)
        assert not (runs / "old-0").exists() and len(list(runs.iterdir())) == guest.KEPT_RUNS
        elsewhere = guest.run_folder("x", runs / "asked for", runs)
        assert elsewhere == (runs / "asked for").resolve() and len(list(runs.iterdir())) == guest.KEPT_RUNS + 1, "nothing goes for its sake"


def wrong_calls_are_refused() -> None:
    assert lab("siw", "true", "--other", "true").returncode == 2
    assert lab("rxe", "true", "--host", "true").returncode == 2
    assert lab("siw", "true", "--program", "/nonexistent").returncode == 2


def main() -> int:
    if reason := contain.why_not():
        print(f"skipped: {reason}")
        return 77
    tests = [status_and_output_are_the_commands, guest_has_our_program_and_both_addresses, guest_that_dies_is_told_of_and_tried_once_more,
             host_command_runs_beside_the_guests_and_ends_it, without_a_command_a_target_answers_on_loopback, two_guests_reach_each_other,
             old_runs_go_and_those_in_use_stay, wrong_calls_are_refused]
    failed = 0
    for test in tests:
        try:
            test()
            print(f"ok      {test.__name__}", flush=True)
        except (AssertionError, subprocess.TimeoutExpired) as problem:
            failed += 1
            print(f"FAILED  {test.__name__}: {problem}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
