"""Replays recorded and smartphone-like traces with an index of two bytes for each stored block, which misses duplicates, and looks for
them out of line.

`onefold-lab replay` does the work; all figures of one run of ./dev bench come from the same replays. What is found is the number of
client blocks less the blocks that hold them, when the trace is over and no work out of line is left. `traces.py` has the traces.
"""

import concurrent.futures
import functools
import json
import os
import statistics
import subprocess

from traces import recorded_and_phones

# 0.19 to 0.92 million writes each.
PHONE_SCALE = "0.01"
SCHEMES = ("ordered-anticipate", "packed")
BYTES_PER_BLOCK = 2
# A share of nothing says nothing.
FOUND_MIN = 100


def replay(trace, scheme, *words):
    done = subprocess.run(
        [os.environ["ONEFOLD_LAB"], "replay", trace, "--scheme", scheme, "--json", *words], stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout)


def found(report):
    return report["space"]["client_blocks"] - report["space"]["linked"]


def written(report):
    return sum(report["whole"]["device_units"].values())


def compare(case):
    """Returns the case's name, the share of a full index's finds, and the units written for each block that work out of line frees."""
    name, trace, scheme = case
    full = replay(trace, scheme)
    little = ["--index-memory", str(max(full["space"]["linked"] * BYTES_PER_BLOCK, 512))]
    both, inline = (replay(trace, scheme, *little, *more) for more in ([], ["--no-out-of-line"]))
    freed = found(both) - found(inline)
    share = 100 * found(both) / found(full) if found(full) >= FOUND_MIN else None
    units = (written(both) - written(inline)) / freed if freed >= FOUND_MIN else None
    return f"{name}, {scheme}: {found(inline)} in line, {freed} out of line, of {found(full)}", share, units


@functools.cache
def results():
    with recorded_and_phones(PHONE_SCALE) as traces, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(compare, [(*trace, scheme) for trace in traces.items() for scheme in SCHEMES]))


FIGURES = {"little-index-found": (1, min), "little-index-written": (2, max)}


def run(name, _options):
    column, worst = FIGURES[name]
    known = [(case[column], case[0]) for case in results() if case[column] is not None]
    value, where = worst(known)
    by_scheme = {scheme: [value for value, case in known if f", {scheme}:" in case] for scheme in SCHEMES}
    modes = {scheme: f"worst {worst(values):.4f}, mean {statistics.mean(values):.4f}" for scheme, values in by_scheme.items() if values}
    mean = round(statistics.mean(value for value, _ in known), 4)
    return {"value": round(value, 4), "at": where, "mean": mean, "cases": len(known), **modes}
