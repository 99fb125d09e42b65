"""Replays the recorded traces with flash below: collections and response times of a volume against the bare flash (APP-Dedupe, IV.B).

`onefold-lab flash` does the work; all figures of one run of ./dev bench come from the same replays. Collections are counted with the
default settings of a volume. Response times are compared under strong persistence, in which a write is answered when it is in the flash,
with a volume and without: weak, a volume answers a write when it is in memory.
"""

import concurrent.futures
import functools
import json
import os
import subprocess

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
TRACES = os.path.join(ROOT, "data", "traces")
# The scheme that is judged: the default of a volume.
OURS = "packed"
# The replays, and their options.
RUNS = {
    "weak": ["--persistence", "weak"],
    "strong": ["--persistence", "strong"],
    "weak, begins with what is held": ["--persistence", "weak", "--begin", "held"],
    "strong, begins with what is held": ["--persistence", "strong", "--begin", "held"],
    "weak, whole device": ["--persistence", "weak", "--whole-device"],
    "strong, whole device": ["--persistence", "strong", "--whole-device"],
}


def replay(options):
    words = [os.environ["ONEFOLD_LAB"], "flash", TRACES, "--json", *options]
    return json.loads(subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout)


@functools.cache
def results():
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(RUNS, pool.map(replay, RUNS.values())))


def of_scheme(compared, scheme):
    return next(row for row in compared["schemes"] if row["scheme"] == scheme)


def saved(report, key):
    """Returns what each trace saves, in per cent."""
    return {trace["trace"]: round(of_scheme(trace, OURS)["saved_percent"][key], 2) for trace in report["traces"]}


def means(report):
    rounded = {mean["scheme"]: {key: round(value, 2) for key, value in mean["saved_percent"].items()} for mean in report["means"]}
    shares = [100 * (1 - of_scheme(trace, OURS)["ideal"]) for trace in report["traces"]]
    return {**rounded, "redundant writes": round(sum(shares) / len(shares), 2)}


# The replay that a figure comes from, and its key.
FIGURES = {"flash-collections": ("weak", "collections"), "flash-response": ("strong", "response_mean")}


def run(name, _options):
    run_name, key = FIGURES[name]
    by_trace = saved(results()[run_name], key)
    value = round(sum(by_trace.values()) / len(by_trace), 4)
    every_mean = {other: means(report) for other, report in results().items()}
    return {"value": value, "replay": run_name, "saved": by_trace, "means": every_mean}
