"""What a small budget of memory holds: the server's resident set with work out of line, and the blocks that the read cache finds."""

import os
import random
import subprocess

from block import MIB, UNIT, Attached, call, onefold
from live import GIB, Place, client, peak_mib

# The volume, its memory, and the load of the first figure.
VOLUME = "16G"
SPAN = GIB // 2
PIECE = 256 * 1024
# The second figure: the blocks that are written, and the reads that are counted after as many that fill the cache.
BLOCKS = 16_384
READS = 60_000
# The LBNs that share each content, by the share of duplicates in percent.
SHARED_BY = {25: 4 / 3, 50: 2, 75: 4}


def mixed(device, seed):
    """Reads and writes half and half, half of the writes duplicates of others lately, at 16 places at a time. Then copies all of it: the
    index has no room for what it was."""
    words = {
        "name": "job", "filename": device, "ioengine": "io_uring", "direct": 1, "rw": "randrw", "bs": "4k", "iodepth": 16,
        "size": SPAN, "randseed": seed, "refill_buffers": 1, "buffer_compress_percentage": 25, "dedupe_percentage": 50,
        "end_fsync": 1,
    }
    done = subprocess.run(["fio", *(f"--{key}={value}" for key, value in words.items())], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise onefold.Failed(f"fio ended with {done.returncode}: {done.stderr[:500]}")
    pieces = (f"count={SPAN // PIECE}", f"seek={SPAN // PIECE}", f"bs={PIECE}", "iflag=direct", "oflag=direct", "conv=fsync")
    call("dd", f"if={device}", f"of={device}", *pieces)


def resident(options):
    """Returns the most that a server with `--memory 2M` had resident, over FUSE and loop, with work out of line beside the load and after
    it."""
    with Place(options) as place:
        store = place.file("volume")
        onefold.run("create", store, "--size", VOLUME, "--sparse")
        attached = Attached(store, "--memory", "2M")
        try:
            mixed(attached.device, options.seed)
            onefold.run("dedup", store, "--all", timeout=7200)
            stats, status, peak = onefold.report("stats", store), onefold.report("status", store), peak_mib(attached.server)
        finally:
            attached.detach()
    index = next(part for part in status["attached"]["condition"]["memory"] if part["part"] == "index")
    return {
        "value": round(peak, 1),
        "linked out of line": stats["out_of_line"]["linked"],
        "fingerprints in the index": stats["dedup"]["index_entries"],
        # The skipped buffer is of the same part of the memory.
        "bytes for each, with the skipped buffer": round(index["used_bytes"] / stats["dedup"]["index_capacity"], 2),
    }


def hits(place, shared_by, seed):
    """Returns the share of random reads that did not reach the device: of a volume whose contents are shared by this many LBNs each."""
    store = place.file(f"shared{shared_by:.2f}")
    onefold.run("create", store, "--size", "256M", "--commit-mode", "ordered")
    server = place.serve(store, "--memory", "16M")
    draw = random.Random(seed)
    contents = [draw.randbytes(UNIT) for _ in range(round(BLOCKS / shared_by))]
    blocks = [contents[n % len(contents)] for n in range(BLOCKS)]
    draw.shuffle(blocks)

    def read_units():
        return next(count["bytes"] for count in onefold.report("stats", store)["device"] if count["what"] == "read data") // UNIT

    with client(server) as handle:
        for n, block in enumerate(blocks):
            handle.pwrite(block, n * UNIT)
        handle.flush()
        for _ in range(READS):
            handle.pread(UNIT, draw.randrange(BLOCKS) * UNIT)
        before = read_units()
        for _ in range(READS):
            handle.pread(UNIT, draw.randrange(BLOCKS) * UNIT)
        found = 1 - (read_units() - before) / READS
    server.detach()
    os.remove(store)
    return found


def read_hits(options):
    """Returns the least of the hit rates with duplicates, each over what a cache by LBN of the same size has divided by 1 - duplication.
    A volume without duplicates has a cache by LBN."""
    with Place(options) as place:
        alone = hits(place, 1, options.seed)
        shared = {percent: hits(place, by, options.seed) for percent, by in SHARED_BY.items()}
    over = {percent: rate / (alone / (1 - percent / 100)) for percent, rate in shared.items()}
    return {
        "value": round(min(over.values()), 3),
        "hit rate by LBN": round(alone, 4),
        "hit rates": {f"{percent} %": round(rate, 4) for percent, rate in shared.items()},
        "over the goal": {f"{percent} %": round(rate, 3) for percent, rate in over.items()},
        "span_MiB": BLOCKS * UNIT // MIB,
    }


def run(name, options):
    return {"little-memory-peak": resident, "read-cache-hits": read_hits}[name](options)
