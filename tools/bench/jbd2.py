"""What ext4's journal has committed, by the kernel's own tracepoint: its transactions, and the blocks that it logged in them.

The means in /proc/fs/jbd2 are cut to whole blocks, which is a third of a small transaction.
"""

import contextlib
import glob
import os
import re

from block import call, onefold

EVENT = "events/jbd2/jbd2_run_stats"
LINE = re.compile(r"jbd2_run_stats: dev (\d+),(\d+) .* blocks_logged (\d+)")
BUFFER_KIB = 16 << 10


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(str(text))


@contextlib.contextmanager
def journal(folder, device):
    """Gives a function that returns the counts of this device's journal from now on."""
    with contextlib.ExitStack() as undo:
        tracefs = os.path.join(folder, "tracefs")
        os.mkdir(tracefs)
        call("mount", "-t", "tracefs", "none", tracefs)
        undo.callback(call, "umount", "-l", tracefs)
        instance = os.path.join(tracefs, "instances", f"onefold-jbd2-{os.getpid()}")
        os.mkdir(instance)
        undo.callback(os.rmdir, instance)
        write(f"{instance}/buffer_size_kb", BUFFER_KIB)
        write(f"{instance}/{EVENT}/enable", 1)
        undo.callback(write, f"{instance}/{EVENT}/enable", 0)
        place = os.stat(device).st_rdev
        yield lambda: counts(instance, (os.major(place), os.minor(place)))


def counts(instance, place):
    for path in glob.glob(f"{instance}/per_cpu/cpu*/stats"):
        with open(path, encoding="ascii") as file:
            if re.search(r"^(overrun|dropped events): [1-9]", file.read(), re.M):
                raise onefold.Failed("the trace of the journal has lost events, and proves nothing")
    with open(f"{instance}/trace", encoding="utf-8", errors="replace") as file:
        found = [match.groups() for match in map(LINE.search, file) if match]
    logged = [int(blocks) for major, minor, blocks in found if (int(major), int(minor)) == place]
    return {"transactions": len(logged), "blocks": sum(logged)}
