"""Compares policies for the index of fingerprints: the recorded traces and smartphone-like ones, at each size of memory.

`onefold-lab index` does the work; all figures of one run of ./dev bench come from the same results. ONEFOLD_BENCH_PHONES chooses rows of
SmartDedup's Table 1 (1,2,3,4,5,6), and ONEFOLD_BENCH_WRITES how many block writes each has (20M).
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
OURS, FULL = "sweep", "full"
# What SmartDedup compares its index with, and AustereCache's.
RIVALS = ("g-lru", "caftl", "caftl-without-pre-hashing", "b-tree", "austere")
# The bytes of index for each stored block.
BYTES_PER_BLOCK = 2


def compare(words):
    done = subprocess.run(
        [os.environ["ONEFOLD_LAB"], "index", "--json", "--bytes-per-block", str(BYTES_PER_BLOCK), *words],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@functools.cache
def results():
    """Returns the comparison of each trace, by its name."""
    traces = sorted(glob.glob(os.path.join(ROOT, "data", "traces", "*.tsv.zst")))
    # The long ones first: two at a time, each takes some GiB of memory.
    jobs = {f"phone-{row}": ["--phone", row, "--writes", WRITES] for row in PHONES if row}
    jobs.update({os.path.basename(path).split(".")[0]: [path] for path in traces})
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(jobs, pool.map(compare, jobs.values())))


def rows(compared):
    """Yields the size of memory and the row of each policy, for each size that was given as such."""
    given = [row for row in compared["rows"] if row["policy"] != FULL and row["bytes_per_block"] is None]
    for size in dict.fromkeys(row["index_bytes"] for row in given):
        yield size, {row["policy"]: row for row in given if row["index_bytes"] == size}


def by_block(compared):
    """Returns the default's row for this number of bytes of index a stored block."""
    return next(row for row in compared["rows"] if row["policy"] == OURS and row["bytes_per_block"] == BYTES_PER_BLOCK)


def units(row):
    return sum(row["io"].values())


def is_trivial(by_policy):
    """Returns whether all policies find the same in line: memory has room for everything, or nothing repeats."""
    return len({by_policy[policy]["inline"] for policy in (OURS, *RIVALS)}) == 1


def apart():
    """Counts the cases that are trivial, and those in which the default finds more than each rival, the same as the best, or less."""
    counts = {"trivial": 0, "more": 0, "same": 0, "less": 0}
    for compared in results().values():
        for _size, by_policy in rows(compared):
            ours, best = by_policy[OURS]["inline"], max(by_policy[policy]["inline"] for policy in RIVALS)
            verdict = "more" if ours > best else "same" if ours == best else "less"
            counts["trivial" if is_trivial(by_policy) else verdict] += 1
    return counts


def inline(trace, compared):
    """Yields by how many per cent of the duplicates the default finds more in line than the best rival, where that is not trivial."""
    for size, by_policy in rows(compared):
        if is_trivial(by_policy):
            continue
        best = max(RIVALS, key=lambda policy: by_policy[policy]["inline"])
        more = by_policy[OURS]["inline"] - by_policy[best]["inline"]
        yield 100 * more / max(compared["duplicates"], 1), f"{trace}, {size >> 20} MiB, against {best}"


def index_io(trace, compared):
    """Yields the index's units as a share of G-LRU's."""
    for size, by_policy in rows(compared):
        ours, theirs = units(by_policy[OURS]), units(by_policy["g-lru"])
        if ours or theirs:
            yield ours / theirs if theirs else float("inf"), f"{trace}, {size >> 20} MiB: {ours} and {theirs}"


def two_bytes(trace, compared):
    """Yields the share of the duplicates that both ways find together with two bytes of index a stored block."""
    ours = by_block(compared)
    found = ours["inline"] + ours["out_of_line"]
    yield 100 * found / max(compared["duplicates"], 1), f"{trace}, {ours['index_bytes']} bytes, {ours['inline']} of {found} in line"


def written(trace, compared):
    """Yields the units written for the index for each block freed, with two bytes of index a stored block."""
    ours = by_block(compared)
    if ours["out_of_line"]:
        yield ours["io"]["written"] / ours["out_of_line"], f"{trace}: {ours['io']['written']} for {ours['out_of_line']}"


def groups(trace, compared):
    """Yields by how many per cent G-LRU finds fewer duplicates in line than LRU."""
    for size, by_policy in rows(compared):
        lru, group = by_policy["lru"], by_policy["g-lru"]
        if lru["inline"]:
            yield 100 * (1 - group["inline"] / lru["inline"]), f"{trace}, {size >> 20} MiB"


def groups_io(trace, compared):
    """Yields how many per cent of the units that move fingerprints G-LRU saves."""
    moved = {policy: sum(by[policy]["io"][key] for _, by in rows(compared) for key in ("read", "written")) for policy in ("lru", "g-lru")}
    if moved["lru"]:
        yield 100 * (1 - moved["g-lru"] / moved["lru"]), trace


FIGURES = {
    "index-inline": (inline, min),
    "index-io": (index_io, max),
    "index-two-bytes": (two_bytes, min),
    "index-written": (written, max),
    "index-groups": (groups, max),
    "index-groups-io": (groups_io, min),
}


def run(name, _options):
    yields, worst = FIGURES[name]
    found = [value for trace, compared in results().items() for value in yields(trace, compared)]
    value, where = worst(found)
    mean = round(sum(value for value, _ in found) / len(found), 4)
    return {"value": round(value, 4), "at": where, "mean": mean, "cases": len(found), "in line": apart()}
