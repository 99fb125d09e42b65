"""Compares an index in parts, one for each stream (APP-Dedupe, III.B), with the global ones at the same memory, on several streams.

`onefold-lab index` does the work, once with work out of line and once without; all figures of one run of ./dev bench come from the same
results. The recorded traces are the applications of one device, and take turns; ONEFOLD_BENCH_LOADS names a folder with more of them
(data/loads, if there is one).
"""

import concurrent.futures
import functools
import glob
import json
import os
import subprocess

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
TRACES = os.path.join(ROOT, "data", "traces")
LOADS = os.environ.get("ONEFOLD_BENCH_LOADS", os.path.join(ROOT, "data", "loads"))
# The traces of programs whose workload is made.
MADE = ("16_", "18_")
# One program of each kind: they share as little as the paper's applications do.
UNLIKE = ("04_", "05_", "06_", "07_", "08_", "10_", "11_", "15_")
TURNS = ("60s", "10s", "1")
MEMORY = ("256K", "1M", "2M", "4M")
PARTS, IDEAL, FULL = ("parts", "parts-placed"), "parts-ideal", "full"
# What the engine has, and the others that know no streams: the paper's order of use without a division, and SmartDedup's.
ENGINE, GLOBAL = "sweep", ("sweep", "runs", "undivided", "lru")
# The requests within which an active stream has sent one: the judged number, and another to show what it matters. In turns of one request
# a part that is active for one request only would be loaded for each of them, which takes the laboratory hours.
ACTIVE, OTHERS, OTHERS_MIXED = 64, 1, 4096


def traces(folder, but=(), only=("",)):
    found = sorted(glob.glob(os.path.join(folder, "*.zst")) + glob.glob(os.path.join(folder, "*", "*.parquet")))
    paths = dict.fromkeys(path if path.endswith(".zst") else os.path.dirname(path) for path in found)
    names = {path: os.path.basename(path) for path in paths}
    return [path for path, name in names.items() if name.startswith(tuple(only)) and not name.startswith(tuple(but))]


def cases():
    """Returns the words for each load."""
    made = {"programs": traces(TRACES, MADE), "unlike programs": traces(TRACES, only=UNLIKE), "loads": traces(LOADS)}
    words = {f"{name} in turns of {turn}": [*paths, "--turn", turn] for name, paths in made.items() if len(paths) > 1 for turn in TURNS}
    words["10_phone_mix by process"] = [os.path.join(TRACES, "10_phone_mix.tsv.zst"), "--by", "process"]
    return words


def actives(words):
    return sorted({ACTIVE, OTHERS_MIXED if words[-1] == "1" else OTHERS})


def compare(words):
    lists = {"--memory": MEMORY, "--active": map(str, actives(words)), "--policy": (*GLOBAL, *PARTS, IDEAL, FULL)}
    options = [word for option, values in lists.items() for word in (option, ",".join(values))]
    command = [os.environ["ONEFOLD_LAB"], "index", "--json", *words, *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


@functools.cache
def results():
    """Returns the comparison of each load, with work out of line and without, by its name."""
    both = {True: [], False: ["--batch", "0"]}
    jobs = {(name, has_batch): batch + words for name, words in cases().items() for has_batch, batch in both.items()}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(jobs, pool.map(compare, jobs.values())))


def sizes(compared):
    """Yields each size of memory, and its rows."""
    rows = [row for row in compared["rows"] if row["policy"] != FULL]
    for size in dict.fromkeys(row["index_bytes"] for row in rows):
        yield size, [row for row in rows if row["index_bytes"] == size]


def of(rows, policies, active=ACTIVE):
    """Returns the rows of these policies; of those with parts, the rows with this number, or all if it is none."""
    return [row for row in rows if row["policy"] in policies and (active is None or row["active"] in (None, active))]


def percent(count, compared):
    return round(100 * count / max(compared["duplicates"], 1), 2)


def inline(rows):
    return max(row["inline"] for row in rows)


def units(row):
    return sum(row["io"].values())


def moved(row):
    return row["io"]["read"] + row["io"]["written"]


def each():
    """Yields each load with its size of memory: its name, whether there is work out of line, the comparison and the rows."""
    for (name, has_batch), compared in results().items():
        for size, rows in sizes(compared):
            where = f"{name}, {size >> 10} KiB, {'with' if has_batch else 'without'} work out of line"
            yield where, has_batch, compared, rows


def found(table):
    """Returns by how many points parts find more in line than the best global index, at worst."""
    worst = []
    for where, _, compared, rows in each():
        best = max(of(rows, GLOBAL), key=lambda row: row["inline"])
        points = percent(inline(of(rows, PARTS)) - best["inline"], compared)
        worst.append((points, where, best["policy"]))
        windows = sorted({row["active"] for row in of(rows, PARTS, None)})
        shown = {
            **{f"active within {n}": percent(inline(of(rows, PARTS, n)), compared) for n in windows},
            **{policy: percent(inline(of(rows, (policy,))), compared) for policy in (*GLOBAL, IDEAL)},
            "all parts of a whole index": percent(compared["duplicates"] - compared["duplicates_of_others"], compared),
        }
        table[where] = shown
    counts = {
        "best global": sum(points >= 0 for points, _, _ in worst),
        "undivided": sum(shown[f"active within {ACTIVE}"] >= shown["undivided"] for shown in table.values()),
        "bound over the engine's": sum(shown[IDEAL] >= shown[ENGINE] for shown in table.values()),
        "cases": len(worst),
    }
    value, where, policy = min(worst)
    return {"value": value, "at": where, "against": policy, "cases in which parts find as much": counts}


def io(table):
    """Returns the units by which parts are loaded and written back, for 1,000 block writes, on the cheaper medium, at worst."""
    costs = []
    for where, _, compared, rows in each():
        engine = of(rows, (ENGINE,))[0]
        for policy in PARTS:
            by_window = {f"active within {row['active']}": row["io"] for row in of(rows, (policy,), None)}
            table[f"{where}, {policy}"] = {
                "loaded, written": {window: (of_row["read"], of_row["written"]) for window, of_row in by_window.items()},
                "all units, and the engine's": (units(of(rows, (policy,))[0]), units(engine)),
            }
        costs.append((1000 * min(map(moved, of(rows, PARTS))) / compared["block_writes"], where))
    value, where = max(costs)
    return {"value": round(value, 4), "at": where, "mean": round(sum(cost for cost, _ in costs) / len(costs), 4)}


def loss(table):
    """Returns the share of the duplicates that no part ever finds in line, at worst, since another stream has them."""
    losses = []
    for where, has_batch, compared, rows in each():
        key = "inline and out of line" if has_batch else "inline"
        losses.append((percent(compared["duplicates_of_others"], compared), where.split(", ", 1)[0]))
        table[where] = {"of other streams": losses[-1][0]}
        for row in of(rows, (*PARTS, ENGINE)):
            missed = compared["duplicates"] - row["inline"] - row["out_of_line"]
            table[where][f"{row['policy']} does not find {key}"] = percent(missed, compared)
    value, where = max(losses)
    return {"value": value, "at": where, "by load": {where: value for value, where in sorted(set(losses))}}


def memory(table):
    """Returns the share of a whole index that the largest part takes, by count, at worst."""
    shares = []
    for (name, has_batch), compared in results().items():
        if has_batch:
            parts = sorted((round(row["share_percent"], 2), row["stream"]) for row in compared["streams"])
            shares.append((*parts[-1], name))
            table[name] = {
                "parts": len(parts),
                "largest": parts[-1],
                "median": parts[len(parts) // 2],
                "mean": round(sum(share for share, _ in parts) / len(parts), 2),
                "within 2.5 %": sum(share <= 2.5 for share, _ in parts),
            }
    value, stream, name = max(shares)
    return {"value": value, "at": f"{stream} of {name}"}


FIGURES = {"partition-found": found, "partition-io": io, "partition-loss": loss, "partition-memory": memory}


def run(name, _options):
    table = {}
    made = FIGURES[name](table)
    return {**made, "by case": table}
