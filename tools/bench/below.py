"""Counts what reaches the disk below the file system that holds a store: the kernel's counters of that disk, against plain ext4 on it.

A place is ext4 on a disk as it is (`native`), or on a volume whose store is the disk itself (`device`) or a file on a host's file
system: of 1 GiB by `create` alone (`file`), `--sparse`, or of 5 GiB, which is sparse by default (`thin`). The loads run in each of four
phases: after create, after the file system was filled (up to 1200 MiB), after the fill was deleted and trimmed, and after a restart. In
each phase a store in a file is compared with the device, and both with native. What the fill, the trim or the restart itself has cost, with
what a volume does about it in the background, stands before the loads, under "-".

Environment: ONEFOLD_BENCH_BELOW_HOSTS (ext4,xfs,btrfs,tmpfs), _STORES (file,sparse,thin), _LOADS (wal,rollback,log,rows,copy) and
_PHASES (create,fill,trim,restart) choose among these. Native and the device are always measured.
"""

import contextlib
import os
import shutil
import sqlite3
import time

from block import MIB, Attached, Disk, call, onefold, roomy, since

HOSTS = ("ext4", "xfs", "btrfs", "tmpfs")
# The others cost by nature what docs/operating.md says, and are in the table.
JUDGED = ("ext4", "xfs")
STORES = ("file", "sparse", "thin")
PHASES = ("create", "fill", "trim", "restart")
CREATE = {"file": ("--size", "1G"), "sparse": ("--size", "1G", "--sparse"), "thin": ("--size", "5G")}
MKFS = {
    "ext4": ("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"),
    "xfs": ("mkfs.xfs", "-q", "-f"),
    "btrfs": ("mkfs.btrfs", "-q", "-f"),
}
DISK_BYTES = 8 << 30
# The fill: of content that neither repeats nor compresses, so that it takes as many blocks of the store. Of what is free, this part.
FILL_MOST = 1200 * MIB
FILL_PART = 0.95
# Long enough for ext4's journal (5 s) and for what a volume writes a moment later.
SETTLE_SECONDS = 6
# What a fill or a trim has left is none of the next load's. A volume waits half a minute with its tables (--noncritical-delay), and as long
# before it gives back what was trimmed.
REST_SECONDS = {"create": 0, "fill": 40, "trim": 80, "restart": 10}
# What a store in a file may write more than one on the device, as a share of what native ext4 writes.
NEAR = 0.05
# Flushes, against native; a few of them are the file systems' own, at no set time.
FLUSHES_MOST = 1.05
FLUSHES_OWN = 4
# What the volume says that it has written to its store, or that the disk below has, against the kernel's count of that disk.
SAID_NEAR = 0.02


def chosen(what, all_of_them):
    """Returns what ONEFOLD_BENCH_BELOW_... chooses among these."""
    words = os.environ.get(f"ONEFOLD_BENCH_BELOW_{what}", ",".join(all_of_them)).split(",")
    unknown = [word for word in words if word not in all_of_them]
    if unknown:
        raise onefold.Failed(f"ONEFOLD_BENCH_BELOW_{what}: unknown {', '.join(unknown)}; there are {', '.join(all_of_them)}")
    return words


# The loads. Each gets an empty directory, and works the same in each of them.


def messages(at, mode, count):
    """Adds rows to a table, each in a durable transaction."""
    base = sqlite3.connect(f"{at}/messages.db", isolation_level=None)
    base.execute(f"pragma journal_mode={mode}")
    base.execute("pragma synchronous=full")
    base.execute("create table message (id integer primary key, body text)")
    for number in range(count):
        body = f"message {number} " + "some words of a chat that are alike " * (1 + number % 7)
        base.execute("insert into message (body) values (?)", (body,))
    base.close()


def log_lines(at, count=2000):
    """Appends lines to a file, each synced."""
    file = os.open(f"{at}/system.log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    for number in range(count):
        line = "Nov 29 10:50:%02d host agent[123]: level=info msg=reconciled item default/web-%d in %d ms\n"
        os.write(file, (line % (number % 60, number * 7919 % 1000, number * 31 % 977)).encode())
        os.fsync(file)
    os.close(file)


def rows(at, count=400):
    """Inserts rows and deletes old ones, as k3s does in its SQLite."""
    base = sqlite3.connect(f"{at}/rows.db", isolation_level=None)
    base.execute("pragma journal_mode=wal")
    base.execute("pragma synchronous=full")
    base.execute("create table kine (id integer primary key, name text, value blob)")
    base.execute("create index by_name on kine (name)")
    for number in range(count):
        value = (b'{"kind":"Lease","renewTime":%d}' % number) * 12
        base.execute("insert into kine (name, value) values (?, ?)", (f"/registry/leases/node{number % 7}", value))
        base.execute("delete from kine where id = ?", (number - 60,))
    base.close()


def copy(at):
    shutil.copytree("/usr/lib/python3", f"{at}/tree", symlinks=True)


# The load, and the flushes of ext4 that it must cause at the least.
LOADS = {
    "wal": (lambda at: messages(at, "wal", 1000), 1000),
    "rollback": (lambda at: messages(at, "delete", 600), 1200),
    "log": (log_lines, 2000),
    "rows": (rows, 800),
    "copy": (copy, 1),
}


def must(holds, what):
    """Raises where a measurement has not had its subject."""
    if not holds:
        raise onefold.Failed(f"below-host measured nothing: {what}")


class Place:
    """ext4 on a disk of its own, or on a volume whose store lies there."""

    def __init__(self, folder, host, store):
        self.host, self.store, self.attached, self.filled, self.undo = host, store, None, 0, contextlib.ExitStack()
        self.name = store if host is None else f"{store} on {host}"
        self.folder = os.path.join(folder, self.name.replace(" ", "-"))
        self.files = os.path.join(self.folder, "files")
        os.makedirs(self.files)
        try:
            self.make()
        except BaseException:
            self.undo.close()
            raise

    def make(self):
        self.disk = None
        if self.host != "tmpfs":
            self.disk = Disk(os.path.join(self.folder, "disk"), DISK_BYTES)
            self.undo.callback(self.disk.close)
        device = self.disk and self.disk.device
        if self.store != "native":
            self.volume = device if self.host is None else self.on_host()
            onefold.run("create", *CREATE.get(self.store, ()), self.volume)
            self.attached = Attached(self.volume)
            self.undo.callback(lambda: onefold.run("detach", self.volume, check=False))
            device = self.attached.device
        call(*MKFS["ext4"], device)
        call("mount", device, self.files)
        self.undo.callback(self.unmount, self.files)
        if self.host:
            taken, size = os.stat(self.volume).st_blocks * 512, os.path.getsize(self.volume)
            must((taken >= size) == (self.store == "file"), f"the file of {self.name} takes {taken} of {size} bytes")

    def on_host(self):
        """Mounts the host's file system, and returns the path of a store on it."""
        mount = os.path.join(self.folder, "host")
        os.mkdir(mount)
        if self.disk:
            call(*MKFS[self.host], self.disk.device)
            call("mount", self.disk.device, mount)
        else:
            call("mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", mount)
        self.undo.callback(self.unmount, mount)
        kind = call("findmnt", "-n", "-o", "FSTYPE", "--target", mount).strip()
        must(kind == self.host, f"{mount} is {kind}")
        return os.path.join(mount, "store")

    @staticmethod
    def unmount(mount):
        if os.path.ismount(mount):
            call("umount", mount)

    def sync(self):
        call("sync", "-f", self.files)
        if self.host:
            call("sync", "-f", os.path.dirname(self.volume))

    def counts(self):
        """Returns what the kernel has counted at the disk, and what the volume says; none where there is neither."""
        return self.disk and self.disk.counts(), self.attached and self.attached.counts()

    def fill(self):
        """Writes a large file, which takes nearly all blocks of the store, and deletes it."""
        path = os.path.join(self.files, "fill")
        self.filled = int(min(FILL_MOST, FILL_PART * shutil.disk_usage(self.files).free) // MIB * MIB)
        before = self.attached and self.attached.counts()["bytes"]
        with open(path, "wb") as file:
            for _ in range(self.filled // MIB):
                file.write(os.urandom(MIB))
            file.flush()
            os.fsync(file.fileno())
        if self.attached:
            wrote = self.attached.counts()["bytes"] - before
            must(wrote >= self.filled, f"the fill of {self.name} wrote {wrote} bytes")
        os.unlink(path)

    def trim(self):
        said = call("fstrim", "-v", self.files)
        trimmed = int(said.rsplit("(", 1)[1].split()[0])
        must(self.filled > 0, "nothing was filled before the trim")
        must(trimmed >= self.filled // 2, f"fstrim of {self.name} trimmed {trimmed} bytes")

    def restart(self):
        """Unmounts the file system, and attaches the volume again."""
        call("umount", self.files)
        device = self.disk and self.disk.device
        if self.attached:
            server = self.attached.server
            self.attached.detach()
            self.attached = Attached(self.volume)
            must(self.attached.server != server, f"{self.name} has the same server")
            device = self.attached.device
        call("mount", device, self.files)

    def begin(self, phase):
        """Brings about what the phase is named for."""
        if phase != "create":
            getattr(self, phase)()

    def empty(self, load):
        """Makes a directory for a load. What an earlier one left there goes."""
        place = os.path.join(self.files, load)
        shutil.rmtree(place, ignore_errors=True)
        os.mkdir(place)
        return place


def settle(places):
    for wait in (SETTLE_SECONDS, 0):
        for place in places:
            place.sync()
        time.sleep(wait)


def begun(places, phase):
    """Begins a phase in each place, and rests; returns what that itself has cost, for each place that has a disk."""
    before = [place.disk and place.disk.counts() for place in places]
    for place in places:
        place.begin(phase)
    settle(places)
    time.sleep(REST_SECONDS[phase])
    settle(places)
    cost = [(place, since(place.disk.counts(), counts)) for place, counts in zip(places, before) if counts]
    return [{"phase": phase, "load": "-", "store": place.store, "host": place.host, **counts} for place, counts in cost]


def measured(places, load):
    """Runs a load in each place; returns what the disk has written, its flushes, and what the volume says, for each."""
    work, flushes_least = LOADS[load]
    at = [place.empty(load) for place in places]
    settle(places)
    before = [place.counts() for place in places]
    for path in at:
        work(path)
    settle(places)
    found = {}
    for place, (disk, said) in zip(places, before):
        disk_now, said_now = place.counts()
        row = {"store": place.store, "host": place.host, "load": load}
        if disk:
            row.update({key: value for key, value in since(disk_now, disk).items() if key != "writes"})
            must(row["bytes"] > 0, f"no byte of {load} reached the disk of {place.name}")
            must(row["flushes"] >= flushes_least or place.store != "native", f"{row['flushes']} flushes of {load} on {place.name}")
        if said:
            row["said"] = said_now["bytes"] - said["bytes"]
            must(row["said"] > 0, f"the volume of {place.name} has written nothing for {load}")
            name = disk and os.path.basename(place.disk.device)
            # On other disks than those in memory the bottom is the disk below this one, and others use it.
            if list(said["disks"]) == [name]:
                row["said_of_disk"] = said_now["disks"][name] - said["disks"][name]
        found[place.name] = row
    return found


def judge(row, native, device):
    """Adds the ratios to a row, and returns what it misses."""
    missed = []
    if "bytes" not in row:
        return missed
    row["ratio"] = round(row["bytes"] / native["bytes"], 3)
    row["flush_ratio"] = round(row["flushes"] / max(native["flushes"], 1), 3)
    if row is native or row["host"] not in (None, *JUDGED):
        return missed
    for key in ("said", "said_of_disk") if row is device else ("said_of_disk",):
        if key in row and abs(row[key] / row["bytes"] - 1) > SAID_NEAR:
            missed.append(f"`stats` counts {row[key]} bytes ({key}), the disk {row['bytes']}")
    most = FLUSHES_MOST * native["flushes"] + FLUSHES_OWN
    if row["flushes"] > most:
        missed.append(f"{row['flushes']} flushes, and at most {most:.0f} are wanted")
    if row is not device and row["ratio"] > device["ratio"] + NEAR:
        missed.append(f"ratio {row['ratio']}, and at most {device['ratio'] + NEAR:.3f} is wanted")
    return missed


def line(row, missed):
    """Returns a row of the table."""
    where = f"{row['phase']:8}{row['load']:9}{row['host'] or '-':6}{row['store']:7}"
    mib = lambda key: f"{row[key] / MIB:8.2f}" if key in row else "       -"  # noqa: E731
    ratio = lambda key: f"{row[key]:7.3f}" if key in row else "      -"  # noqa: E731
    counts = f"{mib('bytes')} MiB {row.get('flushes', '-'):>6} flushes  ratio {ratio('ratio')}  flushes {ratio('flush_ratio')}"
    return f"{where}{counts}  stats {mib('said')} MiB{'  MISSED: ' + '; '.join(missed) if missed else ''}"


def table(options):
    """Measures all places, and returns the number of missed figures."""
    hosts, stores = chosen("HOSTS", HOSTS), chosen("STORES", STORES)
    loads, phases = chosen("LOADS", LOADS), chosen("PHASES", PHASES)
    folder = os.path.join(roomy(options).dir, f"onefold-below.{os.getpid()}")
    os.mkdir(folder, mode=0o700)
    os.environ.update({f"ONEFOLD_{of}_DIR": os.path.join(folder, of.lower()) for of in ("RUN", "STATE", "CONFIG")})
    found, misses, lines = {}, 0, []
    try:
        groups = [[(None, "native"), (None, "device")], *([(host, store) for store in stores] for host in hosts)]
        for group in groups:
            with contextlib.ExitStack() as stack:
                places = []
                for host, store in group:
                    places.append(Place(folder, host, store))
                    stack.push(places[-1].undo)
                for phase in phases:
                    for row in begun(places, phase):
                        lines.append({**row, "missed": []})
                        if not options.json:
                            print(line(row, []), flush=True)
                    for load in loads:
                        for name, row in measured(places, load).items():
                            row["phase"] = phase
                            found[phase, load, name] = row
                            missed = judge(row, found[phase, load, "native"], found.get((phase, load, "device")))
                            misses += len(missed)
                            lines.append({**row, "missed": missed})
                            if not options.json:
                                print(line(row, missed), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    compared = sum(1 for row in lines if "ratio" in row and row["store"] not in ("native", "device"))
    must(compared > 0 or hosts == ["tmpfs"], "no store in a file was compared")
    must("/dev/shm" not in folder or any("said_of_disk" in row for row in lines), "no disk of `stats` was compared")
    return {"value": misses, "table": lines} if options.json else {"value": misses, "lines": len(lines)}


def run(_name, options):
    return table(options)
