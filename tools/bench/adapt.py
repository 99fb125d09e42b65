"""Defers fingerprints as SmartDedup's Figures 10 and 11 do: the recorded traces and smartphone-like ones, with a whole index and nothing
out of line.

`onefold-lab index --adapt` does the work, and measures the time of a fingerprint and of a checksum. Processor time for them stands for
power. ONEFOLD_BENCH_PHONES chooses rows of SmartDedup's Table 1, and ONEFOLD_BENCH_WRITES how many block writes each has (20M).
"""

import concurrent.futures
import functools
import glob
import json
import os
import subprocess

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PHONES = os.environ.get("ONEFOLD_BENCH_PHONES", "1,2,3,4,5,6").split(",")
WRITES = os.environ.get("ONEFOLD_BENCH_WRITES", "20M")
# A share of a few duplicates says nothing.
FOUND_MIN = 100


def compare(job):
    reason, words = job
    command = [os.environ["ONEFOLD_LAB"], "index", "--json", "--policy", "full", "--adapt", reason, *words]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


@functools.cache
def results(reason):
    """Returns the comparison of each trace, by its name."""
    traces = sorted(glob.glob(os.path.join(ROOT, "data", "traces", "*.tsv.zst")))
    jobs = {f"phone-{row}": (reason, ["--phone", row, "--writes", WRITES]) for row in PHONES if row}
    jobs.update({os.path.basename(path).split(".")[0]: (reason, [path]) for path in traces})
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(jobs, pool.map(compare, jobs.values())))


def low_power(compared):
    """Returns the processor time for names that is saved while everything is deferred, in per cent."""
    naming = compared["naming"]
    return 100 * (1 - naming["checksum_ns"] / naming["fingerprint_ns"])


def saved(compared):
    """Returns the processor time for names that is saved, in per cent."""
    found = compared["rows"][0]
    return low_power(compared) * (1 - found["fingerprinted"] / max(found["writes"], 1))


def lost(compared):
    """Returns the duplicates that are not found, in points of all writes, as the paper counts its ratio."""
    return 100 * (compared["duplicates"] - compared["rows"][0]["inline"]) / max(compared["rows"][0]["writes"], 1)


# The reason, what is measured, and the worst of it.
FIGURES = {
    "adapt-time": ("duplication", saved, min),
    "adapt-duplicates": ("duplication", lost, max),
    "battery-time": ("battery", saved, min),
    "battery-duplicates": ("battery", lost, max),
    "battery-low-time": ("battery", low_power, min),
}


def run(name, _options):
    reason, measure, worst = FIGURES[name]
    cases = [(measure(compared), trace) for trace, compared in results(reason).items() if compared["duplicates"] >= FOUND_MIN]
    value, trace = worst(cases)
    mean = sum(value for value, _ in cases) / len(cases)
    return {"value": round(mean, 2), "worst": round(value, 2), "at": trace, "cases": len(cases)}
