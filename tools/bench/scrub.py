"""Rot below a volume that clients use, and a scrub that looks for it: over FUSE and loop, ten minutes of random writes, with a scrub and
without one in turn. The rot is planted in blocks that the writes leave alone, on the store itself, before the first scrub begins."""

import functools
import json
import os
import random
import statistics
import time

from block import MIB, UNIT, Attached, call, onefold
from live import GIB, Place

MODES = ("log", "ordered")
# Half of the volume is filled and rots, the other half is written to.
SIZE, FILLED = 4 * GIB, GIB
ROTTEN = 64
PAIRS = int(os.environ.get("ONEFOLD_BENCH_SCRUB_PAIRS", "5"))
RUN_S = 30


def fio(device, seed, **more):
    """Runs fio on a block device, and returns its throughput in bytes a second."""
    settings = {
        "name": "job", "filename": device, "ioengine": "libaio", "direct": 1, "randseed": seed, "buffer_compress_percentage": 0,
        "refill_buffers": 1, **more,
    }
    said = call("fio", "--output-format=json", *(f"--{key}={value}" for key, value in settings.items()))
    return json.loads(said[said.index("{") :])["jobs"][0]["write"]["bw_bytes"]


def blocks_of(path, first, count):
    """Yields blocks of a file or device, by their numbers."""
    with open(path, "rb") as file:
        file.seek(first * UNIT)
        for number in range(first, first + count):
            yield number, file.read(UNIT)


def plant(volume, store, seed):
    """Changes a bit of each of ROTTEN blocks of the store that hold filled blocks of the volume. Returns how many."""
    dice = random.Random(seed)
    wanted = set(dice.sample(range(FILLED // UNIT), ROTTEN))
    contents = {data for number, data in blocks_of(volume.device, 0, FILLED // UNIT) if number in wanted}
    places = [number for number, data in blocks_of(store, 0, SIZE // UNIT) if data in contents]
    with open(store, "r+b", buffering=0) as file:
        for place in places:
            at = place * UNIT + dice.randrange(UNIT)
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 1 << dice.randrange(8)]))
        os.fsync(file.fileno())
    return len(places)


def scrubbed(store):
    """Returns the state of the scrub. The command ends with 6 once it has found damage."""
    return onefold.report("scrub", store, "--status", check=False)


def until_ended(store):
    onefold.wait_for(lambda: not scrubbed(store)["is_under_way"], 3600, "the end of the scrub")
    return scrubbed(store)


def measured(place, mode, seed):
    store = place.file(f"volume-{mode}")
    onefold.run("create", store, "--size", SIZE, "--commit-mode", mode)
    volume = Attached(store)
    fio(volume.device, seed, rw="write", bs="1M", iodepth=4, size=FILLED, end_fsync=1)
    planted = plant(volume, store, seed)
    if planted < ROTTEN:
        raise onefold.Failed(f"only {planted} of {ROTTEN} blocks lie on the store as they were written")
    pairs, reports = [], []
    for number in range(PAIRS):
        job = {"rw": "randwrite", "bs": "4k", "iodepth": 8, "offset": FILLED, "size": FILLED, "time_based": 1, "runtime": RUN_S}
        before = fio(volume.device, seed * 100 + number, **job)
        onefold.run("scrub", store, "--no-wait")
        began, done = time.monotonic(), scrubbed(store)["done_blocks"]
        during = fio(volume.device, seed * 100 + number + 50, **job)
        state = scrubbed(store)
        looked_at = (state["done_blocks"] - done) * UNIT / (time.monotonic() - began) / MIB if state["is_under_way"] else None
        onefold.run("scrub", store, "--rate", "1G", "--no-wait", check=False)
        reports.append(until_ended(store))
        pairs.append({"alone": round(before / MIB, 1), "beside a scrub": round(during / MIB, 1), "MiB/s looked at": looked_at})
    volume.detach()
    os.unlink(store)
    found = [report["damaged_blocks"] for report in reports]
    ratios = [pair["beside a scrub"] / pair["alone"] for pair in pairs]
    return {"planted": planted, "found by each scrub": found, "ratios": [round(ratio, 3) for ratio in ratios], "MiB/s": pairs}


@functools.cache
def results(directory, seed):
    class Options:
        dir = directory

    with Place(Options) as place:
        return {mode: measured(place, mode, seed) for mode in MODES}


def run(name, options):
    made = results(options.dir, options.seed)
    if name == "scrub-throughput":
        return {"value": round(min(statistics.median(of["ratios"]) for of in made.values()), 3), **made, "cores": os.cpu_count()}
    missed = sum(of["planted"] * len(of["found by each scrub"]) - sum(of["found by each scrub"]) for of in made.values())
    return {"value": missed, **made}
