"""Compares `onefold estimate` with what it foretells: the time with that of reading the same files, both from a cold cache, and the share
that it says is saved with what a fresh volume saves once the tree is copied to ext4 on it, over either front-end.

ONEFOLD_BENCH_TREES chooses other trees than /usr: paths separated by colons.
"""

import os
import statistics
import subprocess
import time

from block import Attached, call, onefold
from live import MIB, Place

TREES = os.environ.get("ONEFOLD_BENCH_TREES", "/usr").split(":")
PAIRS = 5
FRONTS = ("fuse", "nbd")


def cold(*words):
    """Returns the seconds that a command takes when nothing is cached."""
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
        file.write("3")
    began = time.monotonic()
    call(*words)
    return time.monotonic() - began


def times():
    """The estimate's time, as a multiple of that of `cat` of all files, in pairs."""
    cat = f"find {' '.join(TREES)} -xdev -type f -print0 | xargs -0 cat > /dev/null"
    commands = {"cat": ("sh", "-c", cat), "estimate": (onefold.BINARY, "estimate", *TREES)}
    pairs = []
    for number in range(PAIRS):
        order = list(commands) if number % 2 == 0 else list(reversed(commands))
        took = {name: cold(*commands[name]) for name in order}
        pairs.append({name: round(took[name], 2) for name in commands})
    ratios = sorted(pair["estimate"] / pair["cat"] for pair in pairs)
    return {"value": round(statistics.median(ratios), 3), "least": round(ratios[0], 3), "most": round(ratios[-1], 3), "seconds": pairs}


def over_fuse(place, store, _size):
    """Copies the trees to ext4 on the attached block device."""
    attached = Attached(store)
    call("mkfs.ext4", "-q", attached.device)
    folder = place.file("mounted")
    os.mkdir(folder)
    call("mount", attached.device, folder)
    try:
        call("cp", "--archive", "--one-file-system", *TREES, folder)
    finally:
        call("umount", folder)
    attached.detach()


def over_nbd(place, store, size):
    """Copies an ext4 image of the trees by nbdcopy."""
    image, folder = place.file("tree.ext4"), place.file("mounted")
    call("mkfs.ext4", "-q", "-F", image, f"{size}M")
    os.mkdir(folder)
    call("mount", "-o", "loop", image, folder)
    try:
        call("cp", "--archive", "--one-file-system", *TREES, folder)
    finally:
        call("umount", folder)
    server = place.serve(store)
    subprocess.run(["nbdcopy", "--flush", image, server.uri], check=True)
    server.detach()


def points(options):
    """The greatest difference between the share that is foretold and the one that is saved."""
    foretold = onefold.report("estimate", *TREES)
    size = foretold["logical_bytes"] // MIB * 5 // 4 + 1024
    saved = {}
    for front in FRONTS:
        for mode in ("log", "ordered"):
            with Place(options) as place:
                store = place.file("volume")
                onefold.run("create", store, "--size", f"{size * 5 // 4}M", "--sparse", "--commit-mode", mode)
                (over_fuse if front == "fuse" else over_nbd)(place, store, size)
                stats = onefold.report("stats", store)["saved"]
                expected = foretold["saved_percent"] if mode == "log" else foretold["duplicate_percent"]
                saved[f"{front}, {mode}"] = {
                    "foretold": round(expected, 2),
                    "saved": round(stats["percent"], 2),
                    "MiB": [stats["logical_bytes"] // MIB, stats["physical_bytes"] // MIB],
                }
    value = max(abs(one["foretold"] - one["saved"]) for one in saved.values())
    return {"value": round(value, 2), "volumes": saved, "error": round(foretold["error_percent"], 2), "files": foretold["files"]}


def run(name, options):
    made = times() if name == "estimate-time" else points(options)
    return {"trees": TREES, **made}
