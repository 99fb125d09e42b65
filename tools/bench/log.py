"""Benchmarks of the carried log on the built binary, over NBD: those that `live` runs in commit mode `ordered`, and those of a log alone.

Over NBD there is no acknowledgement journal, so small epochs' new blocks are stored in the units that record them.
"""

import os
import statistics
import subprocess

import live
from block import onefold, roomy
from live import GIB, MIB, Place

CREATE = ("--commit-mode", "log")
MODEL = os.environ.get("ONEFOLD_BENCH_MODEL", "tablet")
BLOCK = 4096
# There are many short pairs, so that other work on the machine affects both halves of most pairs alike.
PAIRS = 13
PAIR_S = 3
# The remaining share of a compressed block; fio takes the share that is removed.
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
    """Makes a file without holes."""
    words = ["dd", "if=/dev/zero", f"of={path}", "bs=1M", f"count={size // MIB}"]
    subprocess.run(words, check=True, stderr=subprocess.DEVNULL)


def counted(store):
    """Returns the counts of a volume's ledger so far."""
    stats = onefold.report("stats", store)
    made = dict(stats["ledger"])
    made["log_units"] = sum(count["bytes"] for count in stats["device"] if count["what"] == "write log") // BLOCK
    made["data_units"] = sum(count["bytes"] for count in stats["device"] if count["what"] == "write data") // BLOCK
    return made


def fsync(options, **more):
    """Measures the throughput of 4 KiB writes that are synced one at a time, divided by that of passthrough on the same slowed store: the
    median of the pairs."""
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
            # The first of a pair alternates.
            for name in list(servers)[:: 1 if number % 2 else -1]:
                speed, costs[name] = live.fio(
                    servers[name],
                    options.seed * 100 + number,
                    size=span,
                    rw="randwrite",
                    bs="4k",
                    iodepth=1,
                    norandommap=1,
                    runtime=PAIR_S,
                    **more,
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


def run(name, options):
    if name in SYNCED:
        return fsync(options, **SYNCED[name])
    if name in ("log-second-copy", "log-second-copy-packed"):
        return live.second_copy(options, CREATE, synced=name == "log-second-copy")
    job = name.removesuffix("-half")
    fill, settings = JOBS[job]
    return live.ratio(options, GIB, fill, CREATE, **settings, **(HALF if job != name else {}))
