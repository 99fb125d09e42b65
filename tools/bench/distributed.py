"""SmartDedup's Figure 9 with DEDISbench's way of making data: the distribution of scanned files, driven live.

`onefold-lab scan` counts how often each content occurs in a tree of files, which stands in for the image of a phone. `onefold-lab synth
--distribution` makes block writes with the same distribution at places drawn by NURand, DEDISbench's hot spots; `onefold-lab trace replay`
sends them with their bytes, as fast as they go and four at a time, to a bare store and to volumes, over FUSE and a loop device on a store
that is slowed to a model. Then every block that was written is read once, in another order, after the server's caches were dropped.

What was measured is left in target/smartdedup.json, which `./dev bench papers` shows. ONEFOLD_BENCH_SCANNED names the trees
(/usr/include and /usr/share), ONEFOLD_BENCH_SCANNED_BLOCKS the block writes (65536).
"""

import json
import os
import random
import shutil
import subprocess
import sys
import time

import smart
from block import MIB, UNIT, Attached, Disk, onefold, since
from live import Place

TREES = os.environ.get("ONEFOLD_BENCH_SCANNED", "/usr/include:/usr/share").split(":")
BLOCKS = int(os.environ.get("ONEFOLD_BENCH_SCANNED_BLOCKS", "65536"))
OUTSTANDING = 4
# The places of the requests, as many as the requests.
SPAN = BLOCKS * UNIT


def lab(*words):
    return onefold.run(*words, "--json", binary=os.environ["ONEFOLD_LAB"], timeout=3600)


class Load:
    """The writes with the distribution of a tree, and the reads of what they wrote."""

    def __init__(self, place, tree, seed):
        self.place, self.tree = place, tree
        distribution = place.file("distribution.json")
        lab("scan", tree, "--out", distribution)
        with open(distribution, encoding="utf-8") as file:
            scanned = json.load(file)
        self.writes, self.reads = place.file("writes"), place.file("reads")
        words = ("--scale", min(1, BLOCKS / scanned["blocks"]), "--access", "nurand", "--working-set", SPAN, "--seed", seed)
        made = json.loads(lab("synth", "--out", self.writes, "--distribution", distribution, *words).stdout)["traces"][0]
        self.blocks, self.live = made["total"]["blocks_written"], made["duplication"]["live"]
        self.percent = round(100 * (made["duplication"]["live"] + made["duplication"]["zero"]), 1)
        text = place.file("writes.csv")
        onefold.run("trace", "export", self.writes, text, "--to", "csv")
        with open(text, encoding="utf-8") as file:
            file.readline()
            names = file.readline().strip().split(",")
            offsets = {int(dict(zip(names, line.rstrip("\n").split(",")))["offset"]) for line in file}
        self.read_blocks = len(offsets)
        offsets = random.Random(seed).sample(sorted(offsets), len(offsets))
        with open(text, "w", encoding="utf-8") as file:
            file.write("time_ns,op,offset,length\n")
            file.writelines(f"{n},read,{offset},{UNIT}\n" for n, offset in enumerate(offsets))
        onefold.run("trace", "import", text, self.reads)

    def remove(self):
        for part in (self.writes, self.reads):
            shutil.rmtree(part)
        for name in ("distribution.json", "writes.csv"):
            os.remove(self.place.file(name))


def replay(part, device):
    words = ["trace", "replay", part, "--on", device, "--force", "--no-think", "--outstanding", OUTSTANDING, "--json"]
    return json.loads(onefold.run(*words, timeout=7200).stdout)["whole"]


def once(load, setup, options):
    disk = Disk(load.place.file("store"), 2 * SPAN + 64 * MIB)
    try:
        if setup != "passthrough":
            onefold.run("create", disk.device, "--logical", SPAN)
        words = (*options, "--device-model", smart.MODEL)
        attached = Attached(disk.device, *words)
        try:
            kernel, began = disk.counts(), time.monotonic()
            written = replay(load.writes, attached.device)
            subprocess.run(["blockdev", "--flushbufs", attached.device], check=True)
            seconds, kernel = time.monotonic() - began, since(disk.counts(), kernel)
            saved, linked = None, None
            if setup != "passthrough":
                stats = onefold.report("stats", disk.device)
                saved, linked = round(stats["saved"]["percent"] / 100, 4), round(stats["dedup"]["duplicates"] / load.blocks, 4)
                if linked < smart.FOUND_MIN * load.live:
                    raise onefold.Failed(f"of {100 * load.live:.1f} % duplicates {100 * linked:.1f} % were found")
        finally:
            attached.detach()
        attached = Attached(disk.device, *words)
        try:
            began = time.monotonic()
            read = replay(load.reads, attached.device)
            read_seconds, slowed = time.monotonic() - began, attached.slowed()
        finally:
            attached.detach()
    finally:
        disk.close()
    mib = load.blocks * UNIT / MIB
    return {
        "setup": setup, "store": smart.MODEL, "mib": round(mib), "duplicates_percent": load.percent, "tree": load.tree,
        "write_mib_per_second": round(mib / seconds, 2), "write_p99_us": written["latency_us"]["write"]["p99"],
        "read_mib_per_second": round(load.read_blocks * UNIT / MIB / read_seconds, 2), "read_p99_us": read["latency_us"]["read"]["p99"],
        "saved": saved, "linked": linked, "units": kernel["bytes"] // UNIT,
        "late_percent": round(100 * (slowed["late_us_mean"] + slowed["overslept_us_mean"]) / slowed["model_us_mean"], 2),
    }


def run(_, options):
    """Returns the speed of writes with most duplicates on a volume with the paper's memory, over passthrough's."""
    found = []
    with Place(type("Options", (), {"dir": smart.roomy_dir(options)})) as place:
        for tree in TREES:
            load = Load(place, tree, options.seed)
            for setup, words in smart.setups(SPAN // MIB).items():
                # The paper compresses nothing; a volume with default settings does.
                more = () if setup in ("passthrough", "volume") else ("--compress", "off")
                found.append(once(load, setup, (*words, *more)))
                print(found[-1], file=sys.stderr, flush=True)
            load.remove()
            smart.leave(distributed=found)
    most = max(run["duplicates_percent"] for run in found)
    ratios = {
        f"{percent} %, {setup}, {what}": smart.against(found, setup, {"duplicates_percent": percent}, f"{what}_mib_per_second")
        for percent in sorted({run["duplicates_percent"] for run in found})
        for setup in (smart.PAPER, smart.LITTLE, "volume") for what in ("write", "read")
    }
    return {"value": ratios[f"{most} %, {smart.PAPER}, write"], "model": smart.MODEL, "against passthrough": ratios, "runs": found}
