"""Benchmarks of the carried log on the built binary, over NBD: what `live` measures in commit mode `ordered`, and what only a log is asked.

Over NBD no acknowledgement ring stands in the way, so small epochs' new blocks ride in the units that record them.
"""

import os
import random
import statistics
import subprocess
import time

import live
import nbd
from block import onefold, roomy
from live import GIB, MIB, Place, client

CREATE = ("--commit-mode", "log")
MODEL = os.environ.get("ONEFOLD_BENCH_MODEL", "tablet")
BLOCK = 4096
# Many short pairs: what else the machine does hits both halves of most of them alike.
PAIRS = 13
PAIR_S = 3
# The share of a block that is left when it is compressed, as fio is told it: by what is taken away.
HALF = {"buffer_compress_percentage": 50}
JOBS = {
    "log-ratio-unique": (False, {"rw": "randwrite", "bs": "4k"}),
    "log-ratio-duplicates": (False, {"rw": "randwrite", "bs": "4k", "dedupe_percentage": 50}),
    "log-ratio-write": (False, {"rw": "write", "bs": "128k"}),
    "log-ratio-read": (True, {"rw": "read", "bs": "128k"}),
}
SYNCED = {
    "log-fsync": {"buffer_compress_percentage": 25, "fsync": 1},
    "log-fsync-duplicates": {"buffer_compress_percentage": 25, "fsync": 1, "dedupe_percentage": 50},
    "log-fsync-every-4": {"buffer_compress_percentage": 60, "fsync": 4},
}


def written(path, size):
    """A file without holes."""
    words = ["dd", "if=/dev/zero", f"of={path}", "bs=1M", f"count={size // MIB}"]
    subprocess.run(words, check=True, stderr=subprocess.DEVNULL)


def counted(store):
    """What a volume's ledger has so far."""
    stats = onefold.report("stats", store)
    made = dict(stats["ledger"])
    made["log_units"] = sum(count["bytes"] for count in stats["device"] if count["what"] == "write log") // BLOCK
    made["data_units"] = sum(count["bytes"] for count in stats["device"] if count["what"] == "write data") // BLOCK
    return made


def fsync(options, **more):
    """Throughput of 4 KiB writes that are synced, one at a time, over that of passthrough on the same slowed store; the median of the pairs."""
    span = 128 * MIB
    with Place(roomy(options)) as place:
        bare, store = place.file("bare"), place.file("volume")
        for path in (bare, store):
            written(path, 2 * span)
        onefold.run("create", store, "--force", *CREATE)
        slowed = ("--device-model", MODEL)
        servers = {"passthrough": place.serve(bare, "--passthrough", *slowed), "volume": place.serve(store, *slowed)}
        found, costs = {name: [] for name in servers}, {}
        for number in range(PAIRS):
            # Who begins changes from pair to pair.
            for name in list(servers)[:: 1 if number % 2 else -1]:
                speed, costs[name] = live.fio(
                    servers[name], options.seed * 100 + number, size=span, rw="randwrite", bs="4k", iodepth=1, norandommap=1, runtime=PAIR_S, **more
                )
                found[name].append(speed / BLOCK)
        ledger = counted(store)
        late = onefold.report("stats", store).get("slowed")
        for server in servers.values():
            server.detach()
    ratios = [volume / bare for volume, bare in zip(found["volume"], found["passthrough"])]
    return {
        "value": round(statistics.median(ratios), 4),
        "ratio of each pair": [round(ratio, 4) for ratio in ratios],
        "writes/s": {name: [round(speed, 1) for speed in speeds] for name, speeds in found.items()},
        "units a client unit": round(ledger["device_units"] / ledger["client_units"], 4),
        "flushes a client flush": round(ledger["device_flushes"] / ledger["client_flushes"], 4),
        "ledger": ledger,
        "cpu of the last run": costs,
        "slowed": late,
        "model": MODEL,
        "store in": options.dir,
    }


class Filling:
    """Writes that lengthen a log, and how long it is: in units since the superblock, which has its anchor, was written last."""

    PIECE = 64

    def __init__(self, handle, store, seed, span, flush_every):
        self.handle, self.store, self.span, self.flush_every = handle, store, span, flush_every
        self.number = 0
        self.random = random.Random(seed)
        self.half = bytes(BLOCK // 2)

    def counts(self):
        device = {count["what"]: count["operations"] for count in onefold.report("stats", self.store)["device"]}
        return device["write superblock"], device["write log"]

    def write(self):
        """Unique blocks that come to half, at random places."""
        draw, failed, flying = self.random, [], [0]

        def done(error):
            flying[0] -= 1
            if error:
                failed.append(error)
            return 1

        for _ in range(self.PIECE):
            while flying[0] >= 64:
                self.handle.poll(-1)
            body = nbd.Buffer.from_bytearray(bytearray(draw.randbytes(BLOCK // 2) + self.half))
            flying[0] += 1
            self.handle.aio_pwrite(body, draw.randrange(self.span // BLOCK) * BLOCK, completion=done)
            self.number += 1
            if self.number % self.flush_every == 0:
                while flying[0]:
                    self.handle.poll(-1)
                self.handle.flush()
        while flying[0]:
            self.handle.poll(-1)
        if failed:
            raise onefold.Failed(f"{len(failed)} writes failed")

    def fill(self):
        """Until the walk is nearly as long as it was when one of the checkpoints before ended; its units."""
        superblocks, anchor = self.counts()
        longest, checkpoints = 0, 0
        while True:
            self.write()
            here, units = self.counts()
            if here != superblocks:
                # What was written meanwhile counts for the next one.
                superblocks, checkpoints = here, checkpoints + 1
                anchor = units
            else:
                longest = max(longest, units - anchor)
            if checkpoints >= 2 and units - anchor >= 0.9 * longest > 0:
                return units - anchor


def crashed(options, flush_every):
    """A volume whose log is full, killed, on this machine's disk: what its opening reads until the first read is answered, and how long that takes."""
    memory = "64M"
    with Place(options) as place:
        store = place.file("large")
        onefold.run("create", store, "--size", "64G", "--sparse", *CREATE)
        server = place.serve(store, "--memory", memory)
        with client(server) as handle:
            log_units = Filling(handle, store, options.seed, 60 * GIB, flush_every).fill()
        server.kill()
        subprocess.run(["sync", store], check=True)
        with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
            file.write("3")
        began = time.monotonic()
        server = place.serve(store, "--memory", memory)
        with client(server) as handle:
            handle.pread(BLOCK, 123 * MIB)
            milliseconds = (time.monotonic() - began) * 1000
            read = {count["what"][5:]: count["bytes"] for count in onefold.report("stats", store)["device"] if count["what"].startswith("read ")}
        peak = live.peak_mib(server.process.pid)
        server.detach()
        sound = onefold.report("check", store)["sound"]
    if not sound:
        raise onefold.Failed("check finds damage after the detach")
    return {
        "ms": round(milliseconds, 1),
        "MiB": round(sum(read.values()) / MIB, 2),
        "bytes read": read,
        "units since the last checkpoint": log_units,
        "peak MiB": round(peak, 1),
    }


def reopen(options):
    """The worse of logs that synced single writes, commits of 32 and large commits have filled."""
    return {f"a flush every {every}": crashed(options, every) for every in (1, 32, 2048)}


def run(name, options):
    if name in SYNCED:
        return fsync(options, **SYNCED[name])
    if name == "log-second-copy":
        return live.second_copy(options, CREATE, synced=True)
    if name in ("log-reopen", "log-reopen-bytes"):
        made = reopen(options)
        what = "ms" if name == "log-reopen" else "MiB"
        return {"value": max(crash[what] for crash in made.values()), **made}
    job = name.removesuffix("-half")
    fill, settings = JOBS[job]
    return live.ratio(options, GIB, fill, CREATE, **settings, **(HALF if job != name else {}))
