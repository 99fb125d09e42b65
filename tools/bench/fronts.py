"""Compares the writes of the two front-ends, FUSE and loop and NBD, for the same jobs, by the kernel's counters of the backing device.

Each job has a new volume with default settings, and counts from before its first write to the end of an orderly detach.
"""

import itertools
import json
import os
import subprocess

from block import MIB, UNIT, Attached, Disk, call, onefold, roomy, since
from live import Place

FRONTS = ("fuse", "nbd")
DEPTHS = (1, 4, 32)
FLUSHES = (1, 4, 32, 0)
# The size to which a block compresses, in percent.
CONTENTS = (40, 75, 100)
DUPLICATES = (0, 50)
SPAN = 64 * MIB
LARGE = 512 * MIB
SEQUENTIAL = 256 * MIB
# The tree that `cp -a` copies.
TREE = os.environ.get("ONEFOLD_BENCH_TREE", "/usr/share")

NEAR = 0.03
OVER_PASSTHROUGH = 1.02
OVER_NOISE = 1.02
FLUSHES_MOST = 1.05


class Front:
    """A backing device that the kernel counts, attached by one of the front-ends."""

    def __init__(self, place, kind, size, *options):
        self.kind, self.place = kind, place
        self.disk = Disk(place.file(f"disk.{kind}"), size)
        if "--passthrough" not in options:
            onefold.run("create", self.disk.device, "--force")
        if kind == "fuse":
            self.attached = Attached(self.disk.device, *options)
            self.target = {"ioengine": "io_uring", "filename": self.attached.device, "direct": 1}
        else:
            self.attached = place.serve(self.disk.device, *options)
            self.target = {"ioengine": "nbd", "uri": self.attached.uri}
        self.before = self.disk.counts()

    def close(self):
        """Detaches, and returns the device's counts since the attach and the volume's own account."""
        stats = onefold.report("stats", self.disk.device)
        self.attached.detach()
        counts = since(self.disk.counts(), self.before)
        self.disk.close()
        made = {"units": counts["bytes"] / UNIT, "flushes": counts["flushes"], "commands": counts["writes"]}
        if not stats["passthrough"]:
            made["client_units"] = stats["ledger"]["client_units"]
            made["client_flushes"] = stats["ledger"]["client_flushes"]
            made["new_blocks"] = stats["dedup"]["new_blocks"]
            made["epochs"] = sum(stats["commits"].values())
        return made


def fio(front, seed, **more):
    settings = {"name": "job", **front.target, "randseed": seed, "refill_buffers": 1, "end_fsync": 1, **more}
    words = ["fio", "--output-format=json", *(f"--{key}={value}" for key, value in settings.items())]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0 or json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]["error"]:
        raise onefold.Failed(f"{' '.join(words)} ended with {done.returncode}: {done.stdout[:300]}{done.stderr[:500]}")


def content(percent, duplicates):
    return {"buffer_compress_percentage": 100 - percent, "dedupe_percentage": duplicates}


def random_job(depth, flush, percent, duplicates, span=SPAN):
    """Makes a job that writes each block of the span once, in random order."""
    settings = {"rw": "randwrite", "bs": "4k", "size": span, "iodepth": depth, **content(percent, duplicates)}
    return {**settings, "fsync": flush} if flush else settings


def sequential_job(percent):
    return {"rw": "write", "bs": "128k", "size": SEQUENTIAL, "iodepth": 8, **content(percent, 0)}


def counted(place, kind, seed, job, *options):
    front = Front(place, kind, 3 * job["size"], *options)
    fio(front, seed, **job)
    return front.close()


def tree_bytes():
    done = call("du", "--summarize", "--block-size=1", "--apparent-size", TREE)
    return int(done.split()[0])


def copied_tree(place, *options):
    """Runs `cp -a` onto ext4 on the loop device."""
    front = Front(place, "fuse", 3 * tree_bytes() + 512 * MIB, *options)
    mount = place.file("mount")
    os.makedirs(mount, exist_ok=True)
    call("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", front.attached.device)
    call("mount", front.attached.device, mount)
    try:
        call("cp", "-a", TREE, mount)
        call("sync", "--file-system", mount)
    finally:
        call("umount", mount)
    return front.close()


def imaged_tree(place, kind, *options):
    """Writes an ext4 image of the tree in a way that both front-ends support: in order, in pieces of 256 KiB, without its holes."""
    image = place.file("tree.ext4")
    if not os.path.exists(image):
        megabytes = 2 * tree_bytes() // MIB + 128
        call("mkfs.ext4", "-q", "-F", "-d", TREE, "-E", "lazy_itable_init=0", image, f"{megabytes}M")
    front = Front(place, kind, 2 * os.path.getsize(image), *options)
    if kind == "fuse":
        call("dd", f"if={image}", f"of={front.attached.device}", "bs=256K", "conv=sparse,fsync", "oflag=direct")
    else:
        how = ("--requests=1", "--connections=1", "--flush", "--destination-is-zero", "--request-size=262144")
        call("nbdcopy", *how, image, front.attached.uri)
    return front.close()


def judged(label, fuse, nbd, passthrough, percent):
    """Returns a line of the table, and the number of figures that it misses."""
    rows = {kind: made for kind, made in (("fuse", fuse), ("nbd", nbd)) if made}
    missed = []
    if len(rows) == 2:
        apart = fuse["units"] / nbd["units"] - 1
        if abs(apart) > NEAR:
            missed.append(f"front-ends {apart:+.1%} apart")
    said = []
    for kind, made in rows.items():
        ratio = made["units"] / passthrough["units"]
        line = f"{kind} {ratio:.4f}"
        if percent is not None and percent <= 75 and ratio > OVER_PASSTHROUGH:
            missed.append(f"{kind} {ratio:.4f} of passthrough's units")
        if percent == 100:
            noise = made["units"] / (made["new_blocks"] + made["epochs"])
            line += f" ({noise:.4f} of new blocks and epochs)"
            if noise > OVER_NOISE:
                missed.append(f"{kind} {noise:.4f} of new blocks and epochs")
        flushes = made["flushes"] / max(made["client_flushes"], 1)
        if made["client_flushes"] > 100:
            line += f", {flushes:.3f} flushes"
            if flushes > FLUSHES_MOST:
                missed.append(f"{kind} {flushes:.3f} flushes a flush")
        said.append(line)
    return f"{label}: {'; '.join(said)}{' MISSED: ' + ', '.join(missed) if missed else ''}", len(missed)


def table(options):
    """Runs all jobs, and returns the number of missed figures."""
    lines, misses = [], 0

    def add(label, fuse, nbd, passthrough, percent):
        nonlocal misses
        line, missed = judged(label, fuse, nbd, passthrough, percent)
        lines.append(line)
        misses += missed
        if not options.json:
            print(line, flush=True)

    with Place(roomy(options)) as place:
        seed = options.seed
        bare = counted(place, "nbd", seed, random_job(32, 0, 100, 0), "--passthrough")
        for depth, flush, percent, duplicates in itertools.product(DEPTHS, FLUSHES, CONTENTS, DUPLICATES):
            job = random_job(depth, flush, percent, duplicates)
            made = {kind: counted(place, kind, seed, job) for kind in FRONTS}
            label = f"depth {depth}, {f'a flush every {flush}' if flush else 'no flush'}, {percent} %, duplicates {duplicates} %"
            add(label, made["fuse"], made["nbd"], bare, percent)
        bare = counted(place, "nbd", seed, sequential_job(100), "--passthrough")
        for percent in CONTENTS:
            made = {kind: counted(place, kind, seed, sequential_job(percent)) for kind in FRONTS}
            add(f"sequential, {percent} %", made["fuse"], made["nbd"], bare, percent)
        bare = imaged_tree(place, "nbd", "--passthrough")
        add(f"an image of {TREE}", imaged_tree(place, "fuse"), imaged_tree(place, "nbd"), bare, None)
        add(f"cp -a {TREE}", copied_tree(place), None, copied_tree(place, "--passthrough"), None)
    return {"value": misses, "table": lines} if options.json else {"value": misses, "lines": len(lines)}


def packed(options):
    """Runs depth 32 without flushes, with content that compresses to 40 %, and returns the worse front-end."""
    with Place(roomy(options)) as place:
        job = random_job(32, 0, 40, 0, LARGE)
        made = {kind: counted(place, kind, options.seed, job) for kind in FRONTS}
    ratios = {kind: round(counts["units"] / counts["client_units"], 4) for kind, counts in made.items()}
    return {"value": max(ratios.values()), "units a client unit": ratios, "counts": made}


def run(name, options):
    return {"front-ends": table, "front-packed": packed}[name](options)
