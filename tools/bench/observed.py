"""What the observer knows of a million bios on root's default road (FUSE + loop, ext4), what it costs, and whether it leaves anything.

The loads: fio with random 4 KiB, direct and buffered, and with a lifetime hint; SQLite; git; a copied tree. A rule for each fact counts the
blocks of which the server knew it. A second trace of the same disk, by tracefs, counts the blocks that the kernel marked as metadata and
those of each process; what files have written by direct I/O is known from their jobs. A rule may never count more than that: then a block
had a fact that is not its own. Names are compared block by block, too: the rule `nodedup --file` marks blocks on the medium, and after the
detach exactly the blocks of such files must be marked.

Environment: ONEFOLD_BENCH_OBSERVED_BIOS (1000000), ONEFOLD_BENCH_OBSERVED_ROUNDS (100).
"""

import fcntl
import json
import os
import shutil
import signal
import sqlite3
import time

from block import MIB, UNIT, Attached, Disk, call, onefold
from hinted import Mounted, folder, must, number
from medium import Medium
from traced import BpfOf, Trace, by_process, is_meta, statistics

# The constants of fcntl.h.
F_SET_RW_HINT, RWH_WRITE_LIFE_SHORT = 1036, 2
SIZE = 6144 * MIB
PROCESSES = ("fio", "git", "sqlite-load")
RULES = (
    ("add", "nodedup", "--file", "apart.*"),
    ("add", "nocompress", "--file", "direct.*"),
    ("add", "nocompress", "--file", "*.py"),
    ("add", "nocompress", "--lifetime", "short"),
    ("add", "nocompress", "--meta"),
    *(("add", "nocompress", "--process", name) for name in PROCESSES),
)
# Of all bios, the jobs by direct I/O make these parts.
DIRECT, APART, SHORT = 0.5, 0.15, 0.15
BUFFERED_MIB = 192
TREE = "/usr/lib/python3"
COST_WRITES = 60_000
MADE = {}


def fio(mounted, name, **more):
    """Runs a job of random 4 KiB writes of unique content, and returns the blocks that it wrote."""
    settings = {
        "name": name, "filename": f"{mounted.files}/{name}.bin", "rw": "randwrite", "bs": "4k", "ioengine": "libaio", "iodepth": 16,
        "norandommap": 1, "refill_buffers": 1, "end_fsync": 1, "fallocate": "none", "randseed": 7, **more,
    }
    words = ["fio", "--output-format=json", *(f"--{key}={value}" for key, value in settings.items())]
    said = call(*words)
    job = json.loads(said[said.index("{") :])["jobs"][0]
    must(job["error"] == 0, f"fio {name} ended with {job['error']}")
    return job["write"]["total_ios"]


def sqlite_load(at):
    """Runs rows, each in a transaction that is durable, as a process with a name of its own."""
    if (pid := os.fork()) == 0:
        try:
            with open("/proc/self/comm", "w", encoding="ascii") as file:
                file.write("sqlite-load")
            base = sqlite3.connect(f"{at}/rows.db", isolation_level=None)
            base.execute("pragma synchronous=full")
            base.execute("create table rows (id integer primary key, body text)")
            for row in range(1500):
                base.execute("insert into rows (body) values (?)", (f"row {row} " * 40,))
            base.close()
            os._exit(0)
        finally:
            os._exit(1)
    must(os.waitpid(pid, 0)[1] == 0, "the load of SQLite failed")


def git_load(at):
    """Commits a tree to a repository, durably, and clones it."""
    identity = ("-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "core.fsync=all", "-c", "core.fsyncMethod=fsync")
    shutil.copytree(TREE, f"{at}/repository", symlinks=True)
    for words in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "All of it")):
        call("git", *identity, "-C", f"{at}/repository", *words)
    call("git", *identity, "clone", "-q", "--no-local", f"{at}/repository", f"{at}/clone")


def loads(mounted, bios):
    """Runs all loads; returns the blocks that each file by direct I/O has written."""
    at, blocks = mounted.files, {}
    for name, share in (("direct", DIRECT), ("apart", APART), ("short", SHORT)):
        # Smaller than what is written to it: blocks are overwritten.
        size = max(int(bios * share * UNIT * 0.6) // MIB, 1) * MIB
        with open(f"{at}/{name}.bin", "ab") as file:
            # fio replaces a file that is too small.
            file.truncate(size)
            if name == "short":
                # The inode keeps it while it is open. fio asks for another call, which the kernel has no more.
                fcntl.fcntl(file, F_SET_RW_HINT, RWH_WRITE_LIFE_SHORT.to_bytes(8, "little"))
            blocks[name] = fio(mounted, name, direct=1, size=size, io_size=int(bios * share) * UNIT)
    for part in range(max(bios // 200_000, 1)):
        fio(mounted, f"buffered{part}", direct=0, size=4 * BUFFERED_MIB * MIB, io_size=BUFFERED_MIB * MIB, ioengine="psync", randseed=part)
        os.unlink(f"{at}/buffered{part}.bin")
    sqlite_load(at)
    git_load(at)
    call("cp", "-a", TREE, f"{at}/copied")
    call("sync", "-f", at)
    # Repository, clone and copy: each block of their files is written once.
    blocks["copied"] = 3 * tree_blocks(TREE)
    return blocks


def tree_blocks(tree):
    """Returns the blocks of a tree's files *.py."""
    paths = [os.path.join(place, name) for place, _, names in os.walk(tree) for name in names if name.endswith(".py")]
    return sum(-(-os.path.getsize(path) // UNIT) for path in paths if not os.path.islink(path))


def matched(hints):
    """Returns the blocks that each rule has matched, by a name for its fact."""
    facts = ("file apart", "file direct", "file copied", "lifetime short", "meta", *(f"process {name}" for name in PROCESSES))
    must(len(hints["rules"]) == len(facts), f"{len(hints['rules'])} rules")
    return {fact: rule["matched_blocks"] for fact, rule in zip(facts, hints["rules"])}


def since(now, then):
    return {key: now[key] - then[key] for key in now if isinstance(now[key], int)}


def marked_apart(mounted, lbns):
    """Detaches, and compares the blocks that stay apart on the medium with those of the file, one by one; returns both differences."""
    mounted.detach()
    medium = Medium(mounted.disk.device)
    marked = medium.apart() - set(medium.protected)
    return sorted(marked - lbns), sorted(lbns - marked)


def extents(path):
    """Returns the LBNs of a file, as the file system says."""
    lbns = set()
    for line in call("filefrag", "-b4096", "-s", "-v", path).splitlines():
        fields = line.replace("..", " ").replace(":", " ").split()
        if len(fields) > 5 and fields[0].isdigit():
            lbns.update(range(int(fields[3]), int(fields[4]) + 1))
    must(lbns, f"{path} has no extents")
    return lbns


def known(options, path):
    """Runs the loads under both accounts, and compares them."""
    bios = number("OBSERVED_BIOS", 1_000_000)
    with Mounted(path, SIZE, rules=RULES) as mounted:
        # The first block that stays apart brings the feature to the superblock; those before are not marked.
        fio(mounted, "apart", direct=1, size=MIB, io_size=MIB)
        mounted.settle()
        hints, trace = mounted.hints(), Trace(path, mounted.device)
        mounted.undo.callback(trace.undo.close)
        wrote = loads(mounted, bios)
        mounted.settle()
        now, seen = mounted.hints(), trace.end()
        found = since(matched(now), matched(hints))
        observer = since(now["observer"], hints["observer"])
        processes = by_process(seen)
        truth = {"meta": sum(sectors // 8 for flags, _, sectors, _ in seen if is_meta(flags)), "lifetime short": wrote["short"]}
        truth.update({f"file {name}": wrote[name] for name in ("direct", "apart", "copied")})
        truth.update({f"process {name}": processes[name] for name in PROCESSES})
        for fact, blocks in truth.items():
            must(blocks > 0, f"no block had the fact `{fact}`")
        must(len(seen) >= bios, f"{len(seen)} bios of {bios}")
        lbns = extents(f"{mounted.files}/apart.bin")
        mounted.unmount()
        not_its_own, missing = marked_apart(mounted, lbns)
    blocks = sum(sectors for _, _, sectors, _ in seen) // 8
    shares = {fact: round(100 * found[fact] / truth[fact], 4) for fact in truth}
    too_many = {fact: found[fact] - truth[fact] for fact in truth if found[fact] > truth[fact]}
    return {
        "known": min(shares.values()),
        "wrong": sum(too_many.values()) + len(not_its_own),
        "bios": len(seen), "blocks": blocks, "matched": found, "traced": truth, "shares": shares, "too many": too_many,
        "marked wrongly": not_its_own[:9], "not marked": len(missing), "of": len(lbns), "observer": observer,
    }


def cost(mounted, other, rules):
    """Returns the microseconds of a bio: of the disk that is observed, and of another one."""
    before = BpfOf(mounted.attached.server)
    call("dd", "if=/dev/zero", f"of={other.device}", "bs=4096", f"count={COST_WRITES}", "oflag=direct", "conv=notrunc", "status=none")
    between = BpfOf(mounted.attached.server)
    ns, runs = between.since(before)
    must(runs >= COST_WRITES, f"the program ran {runs} times for {COST_WRITES} bios of another disk")
    others = ns / runs
    bios = mounted.hints()["observer"]["bios"]
    for direct in (1, 0):
        fio(mounted, f"cost{direct}", direct=direct, size=512 * MIB, io_size=COST_WRITES * UNIT)
    bios = mounted.hints()["observer"]["bios"] - bios
    ns, runs = BpfOf(mounted.attached.server).since(between)
    must(bios >= COST_WRITES, f"{bios} bios were seen, {rules}")
    return {"own": round((ns - (runs - bios) * others) / bios / 1000, 3), "other": round(others / 1000, 3), "bios": bios, "runs": runs}


def costs(path):
    """Measures the processor time of bios with names and without files."""
    made = {}
    with statistics():
        for name, rules in (("names", ()), ("bare", (("remove", "--default"), ("add", "nocompress", "--meta")))):
            at = os.path.join(path, name)
            os.mkdir(at)
            other = Disk(f"{at}.other", COST_WRITES * UNIT)
            try:
                with Mounted(at, 2048 * MIB, rules=rules) as mounted:
                    made[name] = cost(mounted, other, rules)
            finally:
                other.close()
    return made


def rounds(path):
    """Attaches and ends servers, in three ways; returns the BPF objects that are left, and how many there were."""
    count, left, held = number("OBSERVED_ROUNDS", 100), [], 0
    disk = Disk(os.path.join(path, "rounds"), 256 * MIB)
    try:
        onefold.run("create", disk.device, "--force")
        for at in range(count):
            attached = Attached(disk.device)
            objects = await_objects(attached.server)
            held += objects.count()
            if at % 3 == 0:
                attached.detach()
            elif at % 3 == 1:
                os.kill(attached.server, signal.SIGKILL)
                onefold.wait_for(lambda: new_server(disk.device, attached.server), 60, "another server")
                objects = [objects, await_objects(onefold.server_pids(disk.device)[1])]
                attached.detach()
            else:
                onefold.kill_processes(onefold.supervisor_of(disk.device))
                onefold.forget_dead(disk.device)
            for one in objects if isinstance(objects, list) else [objects]:
                left += gone(one)
    finally:
        onefold.run("detach", disk.device, check=False)
        disk.close()
    return {"left": len(left), "which": left[:9], "held": held, "rounds": count}


def new_server(store, old):
    status = onefold.report("status", store, check=False)
    return status.get("pid") not in (None, old) and status.get("attached")


def await_objects(pid):
    onefold.wait_for(lambda: BpfOf(pid).ids["prog"], 60, "the observer to begin")
    objects = BpfOf(pid)
    must(len(objects.left()) == objects.count(), "what is held is not there")
    return objects


def gone(objects):
    """Waits a little for the kernel to free what nobody holds, and returns what it still has."""
    for _ in range(50):
        if not (left := objects.left()):
            return []
        time.sleep(0.1)
    return left


def run(name, options):
    """Returns the figure of this name."""
    part = {"observed-left": "rounds", "observed-known": "known", "observed-wrong": "known"}.get(name, "costs")
    if part not in MADE:
        with folder(options) as path:
            MADE[part] = {"rounds": lambda: rounds(path), "known": lambda: known(options, path), "costs": lambda: costs(path)}[part]()
    made = MADE[part]
    if part != "costs":
        return {"value": made[name.removeprefix("observed-")], **made}
    values = {"observed-names": made["names"]["own"], "observed-bare": made["bare"]["own"], "observed-others": made["bare"]["other"]}
    return {"value": values[name], **made}
