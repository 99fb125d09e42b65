"""Compares the engine's steps of two programs that run at once on one processor (`./dev steps`)."""

import json
import os
import statistics
import subprocess
import sys

LOADS = 4
ROUNDS = 5


def rates(programs, load, seed):
    """The median rounds of these programs, in writes a second of their own processor time. They run at once."""
    processor = str(min(os.sched_getaffinity(0)))
    options = ["steps", "engine-steps", "--json", "--seed", str(seed), "--only", str(load), "--rounds", str(ROUNDS)]
    running = [subprocess.Popen(["taskset", "-c", processor, program, *options], stdout=subprocess.PIPE, text=True) for program in programs]
    printed = [process.communicate()[0] for process in running]
    if any(process.returncode for process in running):
        sys.exit("steps: a program has failed")
    return [json.loads(text.strip().splitlines()[-1])["detail"]["cases"][0] for text in printed]


def main():
    other, this, pairs, seed, least = *sys.argv[1:3], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
    worst = None
    for load in range(LOADS):
        ratios = []
        for pair in range(pairs):
            # Each begins first in turn.
            programs = [other, this] if pair % 2 == 0 else [this, other]
            cases = rates(programs, load, seed + pair)
            before, now = cases if pair % 2 == 0 else reversed(cases)
            ratios.append(now["median"] / before["median"])
        median = statistics.median(ratios)
        print(f"{now['case']:32} {median:.3f}   {' '.join(f'{ratio:.2f}' for ratio in sorted(ratios))}", flush=True)
        worst = median if worst is None else min(worst, median)
    verdict = "holds" if worst >= least else "MISSED"
    print(f"engine-steps-against: {worst:.3f}, wanted at least {least}: {verdict}")
    sys.exit(0 if worst >= least else 1)


main()
