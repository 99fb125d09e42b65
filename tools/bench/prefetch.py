"""What the rule `prefetch --process cp` finds where the index has no room: a file copied on one ext4 again and again, over FUSE and loop.

One file has each of its distinct blocks eight times, in random order; the other one is unique. The source is written and looked up out of
line, and then that work rests, so that only what is found at once counts. Before each copy the page cache is dropped. Runs are with the
rule and without it, on a new volume each, with --index-memory 1K.

A block of a copy that is not found at once will be looked up on the medium, out of line. So the look-ups that go to the medium are those
blocks, and the units of tables that are read meanwhile.

Environment: ONEFOLD_BENCH_PREFETCH_MIB (1024), ONEFOLD_BENCH_PREFETCH_COPIES (2), ONEFOLD_BENCH_PREFETCH_MEMORY (64M).
"""

import os
import random
import time

from block import MIB, UNIT, call, onefold
from hinted import Mounted, folder, must, number

RULE = ("add", "prefetch", "--process", "cp")
# The index has room for 128 fingerprints.
MEMORY = ("--index-memory", "1K", "--memory", os.environ.get("ONEFOLD_BENCH_PREFETCH_MEMORY", "64M"))
RULES = {"on": (RULE,), "off": ()}
# How often each distinct block occurs in the file.
TIMES = {"8:1": 8, "unique": 1}
# Reads of data are the copy itself, and comparisons.
TABLES = ("fingerprints", "refs", "map")
MADE = {}


def write_source(path, mib, times, seed):
    """Writes the file; returns the number of its distinct blocks."""
    draw, blocks = random.Random(seed), mib * MIB // UNIT
    order = list(range(blocks // times)) * times
    draw.shuffle(order)
    head = draw.randbytes(UNIT)
    with open(path, "wb") as file:
        for distinct in order:
            # Half of a block is its own, so that no two are alike and none compresses much.
            file.write(random.Random(distinct).randbytes(UNIT // 2) + head[: UNIT // 2])
        file.flush()
        os.fsync(file.fileno())
    return blocks // times


def counts(mounted):
    """Returns what was found, and the units read of each class."""
    stats = mounted.stats()
    read = {count["what"][5:]: count["bytes"] // UNIT for count in stats["device"] if count["what"].startswith("read ")}
    dedup = {key: stats["dedup"][key] for key in ("duplicates", "new_blocks", "unchanged", "zeroes", "deferred")}
    return {"read": read, "dedup": dedup, "matched": sum(rule["matched_blocks"] for rule in stats["hints"]["rules"])}


def drop_caches(mounted):
    call("sync", "-f", mounted.files)
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
        file.write("1")


def copies(path, mib, times, rules, seed):
    """Copies a file, and returns what the copies have cost."""
    count = number("PREFETCH_COPIES", 2)
    with Mounted(path, mib * (count + 2) * MIB, *MEMORY, rules=rules) as mounted:
        source = f"{mounted.files}/source"
        distinct = write_source(source, mib, times, seed)
        mounted.settle()
        onefold.run("dedup", "--all", mounted.disk.device, timeout=1200)
        onefold.run("dedup", "--pause", mounted.disk.device)
        stored = mounted.stats()["space"]
        drop_caches(mounted)
        before, cpu, seconds = counts(mounted), mounted.attached.cpu_seconds(), []
        for at in range(count):
            began = time.monotonic()
            call("cp", source, f"{mounted.files}/copy{at}")
            call("sync", "-f", mounted.files)
            seconds.append(round(time.monotonic() - began, 2))
            drop_caches(mounted)
        cpu, now = mounted.attached.cpu_seconds() - cpu, counts(mounted)
        call("cmp", source, f"{mounted.files}/copy{count - 1}")
    made = {key: {one: now[key][one] - before[key][one] for one in now[key]} for key in ("read", "dedup")}
    blocks = count * mib * MIB // UNIT
    must(sum(made["dedup"].values()) >= blocks, f"{made['dedup']} of {blocks} blocks")
    must((now["matched"] - before["matched"] >= 0.99 * blocks) == bool(rules), f"{now['matched']} blocks have matched")
    tables = sum(made["read"].get(name, 0) for name in TABLES)
    return {
        "found": round(100 * made["dedup"]["duplicates"] / blocks, 2),
        "tables": tables, "look_ups": made["dedup"]["new_blocks"] + tables,
        "blocks": blocks, "distinct": distinct, "shared_before": stored["shared_blocks"],
        "seconds": seconds, "cpu_s": round(cpu, 2), **made,
    }


def compared(options):
    """Runs both files with the rule and without."""
    mib, found = number("PREFETCH_MIB", 1024), {}
    with folder(options) as path:
        for name, times in TIMES.items():
            found[name] = {}
            for turn, rules in RULES.items():
                found[name][turn] = copies(os.path.join(path, f"{times}{turn}"), mib, times, rules, options.seed)
                if not options.json:
                    print(f"{name}, {turn}: {found[name][turn]}", flush=True)
    return {
        "found": found["8:1"]["on"]["found"],
        "found off": {name: of["off"]["found"] for name, of in found.items()},
        "found on": {name: of["on"]["found"] for name, of in found.items()},
        "look-ups": round(found["8:1"]["on"]["look_ups"] / found["8:1"]["on"]["blocks"], 3),
        "look-ups on to off": {name: round(of["on"]["look_ups"] / max(of["off"]["look_ups"], 1), 3) for name, of in found.items()},
        "time": {name: round(sum(of["on"]["seconds"]) / sum(of["off"]["seconds"]), 3) for name, of in found.items()},
        "cpu": {name: round(of["on"]["cpu_s"] / of["off"]["cpu_s"], 3) for name, of in found.items()},
        "runs": found,
        "MiB": mib,
    }


def run(name, options):
    """Returns the figure of this name. One measurement is for both."""
    if not MADE:
        MADE.update(compared(options))
    value = MADE["found"] if name == "prefetch-found" else MADE["look-ups"]
    return {"value": value, **MADE}
