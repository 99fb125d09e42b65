"""SmartDedup's fio on ext4 on a slowed store, with 3.5 MiB of memory and an index for a tenth of the fingerprints.

Three threads write random blocks of 4 KiB, buffered, each its share of the data; what they write does not compress. A run counts from the
first write to the end of the unmount, on a volume and on the bare store in turn, with the same model below both. Then everything is looked
at out of line, and the space that it saves is compared with that of a volume whose index has room for all fingerprints.
"""

import functools
import os
import sys
import time

from block import MIB, onefold, roomy, since
from live import Place
from smart import Run, fio

MODEL = os.environ.get("ONEFOLD_BENCH_MODEL", "tablet")
# The data of a run; less than the goal's 2 GiB gives a quick look.
DATA = int(os.environ.get("ONEFOLD_BENCH_LITTLE_MIB", "2048")) * MIB
DUPLICATES = (0, 25, 50, 75)
UNIT = 4096
# An entry of the index has eight bytes.
INDEX = max(DATA // UNIT // 10 * 8, 512)
LITTLE = ("--memory", "3500K", "--index-memory", str(INDEX))
SLOWED = ("--device-model", MODEL)


def once(place, percent, seed, *options, slowed=()):
    """Runs the load on a new store that is attached with these options. Returns its run time, and the units that reached the store."""
    with Run(place, DATA // MIB, options, slowed) as run:
        before, began = run.disk.counts(), time.monotonic()
        fio(run.mounted.path, DATA // MIB, percent, seed, "randwrite", "--end_fsync=1")
        run.mounted.unmount()
        seconds, written = time.monotonic() - began, since(run.disk.counts(), before)["bytes"] // UNIT
        found = {"seconds": round(seconds, 1), "units": written}
        if run.is_volume:
            found |= looked_at(run.disk.device, run.mounted)
    print(f"{percent} % duplicates, {' '.join((*options, *slowed))}: {found}", file=sys.stderr, flush=True)
    return found


def looked_at(store, mounted):
    """Returns the blocks that the data takes before and after everything was looked at out of line."""

    def taken():
        space = onefold.report("stats", store)["space"]
        return space["unique_blocks"] + space["shared_blocks"] - space["freed_blocks"]

    inline = taken()
    onefold.run("dedup", store, "--all", timeout=7200)
    # In mode log another commit confirms what was unlinked.
    mounted.mount()
    mounted.unmount()
    return {"blocks in line": inline, "blocks": taken()}


@functools.cache
def results(directory, seed):
    class Options:
        dir = directory

    found = {}
    with Place(Options) as place:
        for percent in DUPLICATES:
            found[percent] = {
                "passthrough": once(place, percent, seed, "--passthrough", slowed=SLOWED),
                "little": once(place, percent, seed, *LITTLE, slowed=SLOWED),
                # Only its space counts.
                "whole index": once(place, percent, seed),
            }
    return found


def ratio(found, percent, what):
    return found[percent]["little"][what] / found[percent]["passthrough"][what]


def saved(found):
    """Returns the least space saved, in per cent of what a whole index saves."""
    least = 100.0
    for percent in DUPLICATES[1:]:
        blocks = {scheme: found[percent][scheme]["blocks"] for scheme in ("little", "whole index")}
        least = min(least, 100 * (DATA // UNIT - blocks["little"]) / (DATA // UNIT - blocks["whole index"]))
    return least


FIGURES = {
    "little-live-time": lambda found: ratio(found, 0, "seconds"),
    "little-live-units": lambda found: ratio(found, 0, "units"),
    "little-live-throughput": lambda found: 1 / ratio(found, 25, "seconds"),
    "little-live-saved": saved,
}


def run(name, options):
    directory = roomy(options).dir
    found = results(directory, options.seed)
    made = {"value": round(FIGURES[name](found), 3), "model": MODEL, "MiB": DATA // MIB, "store in": directory, "cores": os.cpu_count()}
    return {**made, "runs": found}
