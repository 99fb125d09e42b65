"""Measures the savings that a kill or a power loss costs: a tree is copied, the server is killed, and the tree is copied again when the
volume reports that its index is filled."""

import os
import statistics
import sys
import time

from block import MIB, UNIT, Attached, call, onefold
from live import GIB, Place, client, fio

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from cutdisk import CutDisk  # noqa: E402

MODES = ("log", "ordered")
TREE = os.environ.get("ONEFOLD_BENCH_TREE", "/usr/share/doc")
PIECE = 256 * 1024
DONE_S = 600
PAIRS = 5
PAIR_S = 4


def imaged(place):
    """Makes an ext4 image of the tree, as large as necessary."""
    image = place.file("tree.ext4")
    size = int(call("du", "--summarize", "--block-size=1M", TREE).split()[0]) * 5 // 4 + 64
    call("mkfs.ext4", "-q", "-F", "-d", TREE, "-E", "lazy_itable_init=0", image, f"{size}M")
    return image


def notices(store):
    return onefold.report("status", store)["attached"]["condition"]["notices"]


def filled(store):
    """Returns the volume's notice that its index is filled completely; None before."""
    said = [str(notice) for notice in notices(store)]
    return next((line for line in said if "index is filled" in line and "when the recount has ended" not in line), None)


def found(store):
    stats = onefold.report("stats", store)
    read = next(count["bytes"] for count in stats["device"] if count["what"] == "read data") // UNIT
    return {"read": read, **{key: stats["dedup"][key] for key in ("duplicates", "new_blocks", "unchanged")}}


def through(image, at, write):
    """Writes the pieces of the image that hold something, each to its place."""
    with open(image, "rb") as file:
        while data := file.read(PIECE):
            if any(data):
                write(data, at)
            at += len(data)


class OverNbd:
    """A server that is killed, and another one that replaces it."""

    def __init__(self, place, store, mode):
        self.place, self.store, self.mode = place, store, mode
        self.serve()

    def serve(self):
        self.server = self.place.serve(self.store, "--commit-mode", self.mode)

    def copy(self, image, at):
        with client(self.server) as handle:
            through(image, at, handle.pwrite)
            handle.flush()

    def end(self):
        self.server.kill()
        self.serve()

    def detach(self):
        self.server.detach()

    def abandon(self):
        """Does nothing: the place ends its servers."""


class OverFuse:
    """A session whose supervisor replaces a killed server."""

    def __init__(self, _place, store, mode):
        self.store = store
        self.attached = Attached(store, "--commit-mode", mode)

    def copy(self, image, at):
        device = os.open(self.attached.device, os.O_WRONLY)
        try:
            through(image, at, lambda data, at: os.pwrite(device, data, at))
            os.fsync(device)
        finally:
            os.close(device)

    def end(self):
        before = self.attached.server
        os.kill(before, 9)

        def is_replaced():
            try:
                return onefold.server_pids(self.store)[1] not in (None, before)
            except onefold.Failed:
                return False

        onefold.wait_for(is_replaced, 20, "another server")

    def detach(self):
        self.attached.detach()

    def abandon(self):
        """Ends the session after a failure: the servers over NBD end with their place, but this one would stay."""
        onefold.run("detach", "--force", self.store, check=False)


class OverCut(OverNbd):
    """A server whose device loses what was not flushed, and which is killed with it."""

    def __init__(self, place, disk, mode):
        self.disk = disk
        super().__init__(place, disk.path, mode)

    def end(self):
        self.disk.cut()
        self.server.kill()
        self.disk.power()
        self.serve()


def copied_twice(image, volume):
    """Returns how the blocks of the second copy were stored, and what was read before it."""
    try:
        return copied_again(image, volume)
    except BaseException:
        volume.abandon()
        raise


def copied_again(image, volume):
    far = -(-os.path.getsize(image) // MIB) * MIB
    volume.copy(image, 0)
    first = found(volume.store)
    volume.end()
    onefold.wait_for(lambda: filled(volume.store), DONE_S, "the index")
    before, said = found(volume.store), filled(volume.store)
    volume.copy(image, far)
    after = found(volume.store)
    volume.detach()
    second = {key: after[key] - before[key] for key in after}
    share = 100 * second["duplicates"] / (second["duplicates"] + second["new_blocks"])
    return {"found %": round(share, 2), "first": first, "second": second, "read before": before["read"], "said": said}


def second_copy(options):
    """Measures, in both modes, a kill over NBD, one over FUSE and loop, and a power loss."""
    made = {}
    with Place(options) as place:
        image = imaged(place)
        size = 3 * os.path.getsize(image) + 256 * MIB
        for mode in MODES:
            for kind, over in (("NBD", OverNbd), ("FUSE + loop", OverFuse)):
                store = place.file(f"volume.{mode}.{over.__name__}")
                onefold.run("create", store, "--size", size, "--sparse")
                made[f"{mode}, kill over {kind}"] = copied_twice(image, over(place, store, mode))
                os.unlink(store)
            mountpoint = place.file("cut")
            os.makedirs(mountpoint, exist_ok=True)
            disk = CutDisk(os.environ["ONEFOLD_CUTFS"], mountpoint, -(-size // MIB), options.seed)
            try:
                onefold.run("create", disk.path, "--force")
                made[f"{mode}, power cut"] = copied_twice(image, OverCut(place, disk, mode))
            finally:
                disk.end()
    return {"value": min(part["found %"] for part in made.values()), **made}


def throughput(options):
    """Measures random writes while the index is rebuilt, divided by the same afterwards: the median of pairs, in mode `log`."""
    ratios, speeds = [], []
    with Place(options) as place:
        for number in range(PAIRS):
            store = place.file("volume")
            onefold.run("create", store, "--size", 4 * GIB, "--sparse")
            server = place.serve(store)
            job = {"rw": "randwrite", "bs": "4k", "size": GIB, "runtime": PAIR_S}
            # Incompressible content in large epochs has only short names until the next checkpoint.
            fio(server, options.seed, rw="write", bs="1M", size=GIB, time_based=0, runtime=600)
            with client(server) as handle:
                handle.flush()
            server.kill()
            server = place.serve(store)
            seed = options.seed * 100 + number
            during, _ = fio(server, seed, offset=GIB, **job)
            is_over = filled(store) is not None
            began = time.monotonic()
            onefold.wait_for(lambda: filled(store), DONE_S, "the index")
            waited = time.monotonic() - began
            with client(server) as handle:
                handle.flush()
            after, _ = fio(server, seed + 50, offset=GIB, **job)
            speeds.append(
                {
                    "MiB/s while it goes on": round(during / MIB, 1),
                    "MiB/s then": round(after / MIB, 1),
                    "went on for s": round(waited, 1),
                    "said": filled(store),
                }
            )
            if is_over:
                raise onefold.Failed("the index was filled before the job had ended, so nothing was measured")
            ratios.append(during / after)
            server.detach()
            os.unlink(store)
    return {"value": round(statistics.median(ratios), 3), "ratio of each pair": [round(ratio, 3) for ratio in ratios], "pairs": speeds}


def run(name, options):
    return {"log-second-copy-killed": second_copy, "rebuild-throughput": throughput}[name](options)
