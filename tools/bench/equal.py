"""Reads with the same bytes of cache: a volume's read cache by PBN, and the page cache by LBN of a bare store (SmartDedup, section 3.4).

The paper's cache by content is the whole page cache. Here three threads read what fio wrote, 4 KiB at a time, on ext4 on a store slowed to
a model, from a cold cache. On passthrough fio reads by way of the page cache, in a control group that has room for the cache and for fio
itself. On a volume it reads past the page cache, and the server's read cache has the same bytes. Blocks are read once in the order of the
writes, as fio does by default and the paper did; once in another order; and again and again at random.

`smartdedup-reads` reads in the same way with the memory of Figure 3, all by way of a page cache that nobody bounds: there the runs of
`smartdedup-fio` lie half an hour apart, and here seconds.

What was measured is left in target/smartdedup.json, which `./dev bench papers` shows. ONEFOLD_BENCH_EQUAL_MIB (256) is the data,
ONEFOLD_BENCH_EQUAL_CACHE_MIB (128) the cache, ONEFOLD_BENCH_EQUAL_RUNS (3) the number of runs, of which the median counts.
"""

import contextlib
import functools
import os
import sys
import tempfile
import time

import smart
from block import MIB, UNIT, Attached, onefold, since
from live import Place
from workloads import Mounted, drop_caches

DATA_MIB = int(os.environ.get("ONEFOLD_BENCH_EQUAL_MIB", "256"))
CACHE_MIB = int(os.environ.get("ONEFOLD_BENCH_EQUAL_CACHE_MIB", "128"))
RUNS = int(os.environ.get("ONEFOLD_BENCH_EQUAL_RUNS", "3"))
DUPLICATES = (25, 75)
# What fio takes itself.
FIO_BYTES = 8 * MIB
# The read cache has a sixteenth of a server's memory.
SETUPS = {"passthrough": ("--passthrough",), "volume": ("--memory", f"{16 * CACHE_MIB}M", "--index-memory", "3M")}
# How each load chooses blocks: the seed beside that of the writes, and more of fio's options.
LOADS = {
    "in the order of the writes": (0, ()),
    "in another order": (1, ()),
    "again and again": (2, ("--norandommap", "--loops=2")),
}
GROUPS = (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/unified", "memory.max"))


@contextlib.contextmanager
def group(bytes_max):
    """Makes a control group with a bound on its memory, page cache included. Gives the options by which fio enters it."""
    for root, name in GROUPS:
        path = tempfile.mkdtemp(prefix="onefold-bench.", dir=root) if os.path.exists(os.path.join(root, "cgroup.procs")) else None
        if path and os.path.exists(os.path.join(path, name)):
            break
        if path:
            os.rmdir(path)
    else:
        raise onefold.Failed("no control group of this machine bounds memory")
    try:
        with open(os.path.join(path, name), "w", encoding="ascii") as file:
            file.write(str(bytes_max))
        yield path
    finally:
        # What it cached goes with it.
        drop_caches()
        os.rmdir(path)


def enter(path):
    with open(os.path.join(path, "cgroup.procs"), "w", encoding="ascii") as file:
        file.write("0")


def cached_mib(path):
    """Returns the page cache of a control group, of either version."""
    with open(os.path.join(path, "memory.stat"), encoding="ascii") as file:
        stat = dict(line.split() for line in file)
    return round((int(stat["active_file"]) + int(stat["inactive_file"])) / MIB, 1)


def read(run, name, percent, seed, is_equal):
    """Reads by one load from a cold cache, with the same bytes of it if it `is_equal`. Returns the speed, the blocks for which the device
    was read, and the cache."""
    other, more = LOADS[name]
    passes = 2 if "--loops=2" in more else 1
    run.remount()
    before, began = smart.device_reads(run), time.monotonic()
    with contextlib.ExitStack() as stack:
        job, path = functools.partial(smart.fio, threads=3), None
        if is_equal and run.is_volume:
            more = (*more, "--direct=1")
        elif is_equal:
            path = stack.enter_context(group(CACHE_MIB * MIB + FIO_BYTES))
            job = functools.partial(smart.fio, threads=3, preexec_fn=functools.partial(enter, path))
        done = job(run.mounted.path, DATA_MIB, percent, seed + other, "randread", *more)
        seconds = time.monotonic() - began
        cache = cached_mib(path) if path else None
    commands = since(smart.device_reads(run), before)
    blocks = commands["read data" if run.is_volume else "reads"]
    if run.is_volume:
        parts = onefold.report("stats", run.disk.device)["memory"]
        cache = round(next(part["peak_bytes"] for part in parts if part["part"] == "read cache") / MIB, 1)
    return {
        "load": name, "read_mib_per_second": round(passes * DATA_MIB / seconds, 2),
        "read_p95_us": smart.percentile(done, "read", 95), "hits": round(1 - blocks / (passes * DATA_MIB * MIB // UNIT), 4),
        "cache_mib": cache, "late_percent": smart.late_percent(run),
    }


class Filled(smart.Run):
    """A store that fio has written at full speed."""

    def __init__(self, place, percent, seed, options):
        super().__init__(place, DATA_MIB, options, ("--device-model", smart.MODEL))
        self.percent, self.seed = percent, seed

    def attach(self, stack):
        attached = Attached(self.disk.device, *self.options)
        mounted = Mounted(attached.device)
        try:
            mounted.mount()
            smart.fio(mounted.path, DATA_MIB, self.percent, self.seed, "randwrite", "--end_fsync=1")
        finally:
            mounted.close()
            attached.detach()
        super().attach(stack)


def once(place, setup, options, percent, load, seed, is_equal):
    # A new server for each: its read cache is cold, too.
    with Filled(place, percent, seed, options) as run:
        saved = run.saved()
        if run.is_volume and saved < smart.FOUND_MIN * percent / 100:
            raise onefold.Failed(f"of {percent} % duplicates {100 * saved:.1f} % share a block")
        found = read(run, load, percent, seed, is_equal)
    print(f"{setup}, {percent} %, {found}", file=sys.stderr, flush=True)
    return {"setup": setup, "store": smart.MODEL, "mib": DATA_MIB, "duplicates_percent": percent, **found}


def median(runs):
    """Returns the run of median speed, with the speeds of all."""
    middle = sorted(runs, key=lambda run: run["read_mib_per_second"])[len(runs) // 2]
    return {**middle, "speeds": [run["read_mib_per_second"] for run in runs]}


def is_base(other, of):
    return other["setup"] == "passthrough" and all(other[key] == of[key] for key in ("duplicates_percent", "load"))


def measure(options, part, setups, shares, loads):
    """Measures each case on all setups in turn, and leaves the medians as a part of the file. Returns them, with the speeds over
    those of passthrough."""
    found = []
    with Place(type("Options", (), {"dir": smart.roomy_dir(options)})) as place:
        for percent in shares:
            for load in loads:
                def each(setup):
                    return once(place, setup, setups[setup], percent, load, options.seed, part == "equal")

                runs = [[each(setup) for setup in setups] for _ in range(RUNS)]
                found += [median(of) for of in zip(*runs)]
                smart.leave(**{part: found})
    ratios, most = {}, {}
    for of in found:
        if of["setup"] != "passthrough":
            base = next(other for other in found if is_base(other, of))
            case = f"{of['duplicates_percent']} %, {of['load']}, {of['setup']}"
            ratios[case] = round(of["read_mib_per_second"] / base["read_mib_per_second"], 3)
            # Three reads wait at a time, and the device does one after the other: it is busy whatever the road takes.
            most[case] = round((1 - base["hits"]) / (1 - of["hits"]), 3)
    sizes = {"model": smart.MODEL, "MiB": DATA_MIB, "runs of each": RUNS, "cores": os.cpu_count()}
    return {**sizes, "against passthrough": ratios, "by what the device was read": most, "runs": found}


def run(name, options):
    """Returns the speed of reads in the order of the writes with 25 % duplicates, over passthrough's."""
    order = next(iter(LOADS))
    if name == "smartdedup-reads":
        made, setup = measure(options, "reads", smart.setups(DATA_MIB), smart.DUPLICATES, [order]), smart.PAPER
    else:
        made, setup = measure(options, "equal", SETUPS, DUPLICATES, LOADS), "volume"
    share = 25 if name != "smartdedup-reads" or 25 in smart.DUPLICATES else smart.DUPLICATES[-1]
    return {"value": made["against passthrough"][f"{share} %, {order}, {setup}"], "cache MiB": CACHE_MIB, **made}
