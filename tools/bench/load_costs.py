"""Figure 4 of APP-Dedupe: the memory and the processor time of a server for the loads of data/loads, beside those of the bare store.

Each load's requests go to a new volume over FUSE and a loop device, one after the other without think times, with passthrough, with the
default settings of a volume, and in the other commit mode. The server's most resident memory and its processor time are taken before the
detach. Beyond passthrough, memory is a share of that of the paper's phone, and processor time one of the time that the load took when it
was recorded, on one processor. What was measured is left in target/load-costs.json, which `./dev bench papers` shows. All figures of one
run of ./dev bench come from the same replays. ONEFOLD_BENCH_COSTS chooses among the loads, by their names with commas.
"""

import functools
import glob
import json
import os
import sys

from block import MIB, Attached, Disk, onefold, roomy
from live import Place, peak_mib

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
LOADS = os.path.join(ROOT, "data", "loads")
FILE = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "load-costs.json")
ONLY = [name for name in os.environ.get("ONEFOLD_BENCH_COSTS", "").split(",") if name]
# The disk that the loads were recorded on (data/loads/README.md), and the memory of the paper's phone.
DEVICE_MIB = 4096
PHONE_MIB = 2048
PASSTHROUGH, VOLUME = "passthrough", "volume"
# The options of create, or none for no volume, and those of attach.
SETUPS = {PASSTHROUGH: (None, ("--passthrough",)), VOLUME: ((), ()), "ordered": (("--commit-mode", "ordered"), ())}


def loads():
    """Yields the path and the facts of each load."""
    for path in sorted(glob.glob(os.path.join(LOADS, "*.json"))):
        with open(path, encoding="utf-8") as file:
            facts = json.load(file)
        if not ONLY or facts["name"] in ONLY:
            yield path.removesuffix(".json") + ".tsv.zst", facts


def cost(place, path, facts, setup):
    create, attach = SETUPS[setup]
    disk = Disk(place.file("store"), (DEVICE_MIB + DEVICE_MIB // 32 + 64) * MIB)
    try:
        if create is not None:
            onefold.run("create", disk.device, "--logical", DEVICE_MIB * MIB, *create)
        attached = Attached(disk.device, *attach)
        try:
            began = attached.cpu_seconds()
            onefold.run("trace", "replay", path, "--on", attached.device, "--no-think", "--json", timeout=1200)
            seconds, peak = attached.cpu_seconds() - began, peak_mib(attached.server)
        finally:
            attached.detach()
    finally:
        disk.close()
    found = {"load": facts["name"], "setup": setup, "load_seconds": facts["load_seconds"]}
    found.update(cpu_seconds=round(seconds, 2), peak_mib=round(peak, 1))
    print(found, file=sys.stderr, flush=True)
    return found


def machine_mib():
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / MIB


@functools.cache
def measured(directory):
    class Options:
        dir = directory

    with Place(roomy(Options)) as place:
        found = [cost(place, path, facts, setup) for path, facts in loads() for setup in SETUPS]
    os.makedirs(os.path.dirname(FILE), exist_ok=True)
    with open(FILE, "w", encoding="utf-8") as file:
        json.dump({"cores": os.cpu_count(), "machine_mib": round(machine_mib()), "costs": found}, file, indent=1)
    return found


def beyond(found, setup, key, whole):
    """Returns what a setup takes beyond passthrough, in per cent of a whole, for each load."""
    of = {(one["load"], one["setup"]): one for one in found}
    more = {name: one[key] - of[name, PASSTHROUGH][key] for (name, other), one in of.items() if other == setup}
    return {name: round(100 * value / whole(of[name, setup]), 2) for name, value in more.items()}


def run(name, options):
    """Returns the most that a volume with default settings takes beyond passthrough."""
    found = measured(options.dir)
    key, whole = {
        "load-memory": ("peak_mib", lambda _: PHONE_MIB),
        "load-processor": ("cpu_seconds", lambda one: one["load_seconds"]),
    }[name]
    by_setup = {setup: beyond(found, setup, key, whole) for setup in SETUPS if setup != PASSTHROUGH}
    means = {setup: round(sum(by_load.values()) / len(by_load), 2) for setup, by_load in by_setup.items()}
    return {"value": max(by_setup[VOLUME].values()), "means": means, "beyond passthrough": by_setup, "left in": FILE}
