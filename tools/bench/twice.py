"""What it costs to write twice for safety's sake, on a bare device and on a volume, where the second copy is a duplicate of the first one.

Each protection is on and off: ext4 with data=journal against data=ordered; SQLite with a rollback journal against a write-ahead log; InnoDB
with its doublewrite buffer; PostgreSQL with images of full pages in its log. The kernel counts units and flushes of the disk below, from
the end of the setup until the file system is unmounted and the volume detached. A ratio is units with the protection over those without.

The program's own counter says what it wrote twice: jbd2 the blocks that it logged, SQLite's files the pages that are also written home,
InnoDB its doublewritten pages, PostgreSQL its images. Of these blocks the share was found that has not become new blocks on the volume.

Writes target/twice-written.json beside the text. Environment: ONEFOLD_BENCH_TWICE (fio,tree,sqlite-journaled,sqlite,innodb,postgres)
chooses among the cases.
"""

import json
import os

from block import MIB, call, onefold
from databases import InnoDb, Missing, Postgres
from hinted import Mounted, folder, must
from jbd2 import journal
from journaled import Base

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
TABLE = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "twice-written.json")
SIZE = 2048 * MIB
KINDS = ("bare", "volume")
TREE = "/usr/lib/python3"
FIO_MIB = 64
SQLITE_ROWS = 1000
# The least units that a load causes without protection: a load that did not run is no measurement.
UNITS_LEAST = 500
MADE = {}


class Fio:
    """Random writes with an fsync after every eighth."""

    # What the program itself has written twice, in blocks; none where ext4 does it.
    twice = None

    def __init__(self, at, _protects):
        self.at = at

    def setup(self):
        pass

    def run(self):
        settings = {
            "name": "load", "filename": f"{self.at}/load.bin", "rw": "randwrite", "bs": "4k", "ioengine": "psync", "size": FIO_MIB * MIB,
            "fsync": 8, "refill_buffers": 1, "randseed": 1, "fallocate": "none",
        }
        call("fio", *(f"--{key}={value}" for key, value in settings.items()))

    def close(self):
        pass


class Tree(Fio):
    """A copied tree, synced at the end."""

    def run(self):
        call("cp", "-a", TREE, f"{self.at}/tree")
        call("sync", "-f", self.at)


class Sqlite(Fio):
    """Inserts and updates, each durable, with a rollback journal."""

    def __init__(self, at, _protects):
        super().__init__(at, True)
        self.mode = "delete"

    def run(self):
        base = Base(f"{self.at}/rows.db", self.mode)
        base.commit([("create table rows (id integer primary key, thread integer, body text)", ())])
        base.commit([("create index by_thread on rows (thread)", ())])
        for row in range(SQLITE_ROWS):
            body = f"row {row} " + "some words of a chat that are alike " * (1 + row % 7)
            base.commit([("insert into rows (thread, body) values (?, ?)", (row * 7919 % 40, body))])
            base.commit([("update rows set body = body || '.' where id = ?", (row * 31 % (row + 1) + 1,))])
        self.found = base.close()


class SqliteModes(Sqlite):
    """The same with a rollback journal or, without protection, a write-ahead log."""

    def __init__(self, at, protects):
        super().__init__(at, protects)
        self.mode = "delete" if protects else "wal"

    def run(self):
        super().run()
        self.twice = self.found


ORDERED, JOURNALED = ("-o", "data=ordered"), ("-o", "data=journal")
# The load; how ext4 is mounted with the protection and without; what is on and off.
CASES = {
    "fio": (Fio, JOURNALED, "data=journal, data=ordered"),
    "tree": (Tree, JOURNALED, "data=journal, data=ordered"),
    "sqlite-journaled": (Sqlite, JOURNALED, "data=journal, data=ordered"),
    "sqlite": (SqliteModes, ORDERED, "rollback journal, write-ahead log"),
    "innodb": (InnoDb, ORDERED, "doublewrite on, off"),
    "postgres": (Postgres, ORDERED, "full_page_writes on, off"),
}
EXT4_CASES = ("fio", "tree", "sqlite-journaled")


def counted(path, name, kind, protects):
    """Runs one load on a new volume, or on the bare disk, and returns what reached the disk."""
    load, protected, _ = CASES[name]
    with Mounted(path, SIZE, kind=kind, mount=protected if protects else ORDERED) as mounted:
        program = load(mounted.files, protects)
        mounted.undo.callback(program.close)
        program.setup()
        mounted.settle()
        before = mounted.counts()
        said = mounted.attached.counts() if mounted.attached else None
        dedup = mounted.stats()["dedup"] if said else None
        with journal(path, mounted.device) as logged:
            program.run()
            mounted.unmount()
            made = {"twice": program.twice or logged()}
        if said:
            now, deduped = mounted.attached.counts(), mounted.stats()["dedup"]
            made["client_units"] = now["client_units"] - said["client_units"]
            made["stored"] = {key: deduped[key] - dedup[key] for key in ("duplicates", "new_blocks", "unchanged", "zeroes", "deferred")}
            made["by_class"] = {key: (now["by_class"][key] - said["by_class"][key]) // 4096 for key in now["by_class"]}
            mounted.detach()
        made.update(mounted.since(before))
    must(made["units"] >= UNITS_LEAST, f"{name} on {kind} wrote {made['units']} units")
    return made


def found(name, on, off):
    """Returns what was written twice, by the program's counter, and how the volume stored it: content that is new was not found."""
    more = {key: on["stored"][key] - off["stored"][key] for key in ("new_blocks", "duplicates", "unchanged", "zeroes")}
    if name == "sqlite":
        must(on["twice"]["logged"] > 0 and off["twice"]["logged"] > 0, "SQLite has no journal, or no log")
        # Both write twice. Only a copy that begins with a block can be found.
        return {"rollback journal": on["twice"], "write-ahead log": off["twice"], **more}
    twice = {key: on["twice"][key] - off["twice"][key] for key in on["twice"]}
    must(twice["blocks"] > 0, f"{name} has written nothing twice by its own counter")
    return {**twice, **more, "share": round(1 - more["new_blocks"] / twice["blocks"], 3)}


def case(path, name):
    """Runs one case four times, and returns its row."""
    row = {"case": name, "on and off": CASES[name][2]}
    for kind in KINDS:
        on, off = (counted(os.path.join(path, f"{name}-{kind}-{protects}"), name, kind, protects) for protects in (True, False))
        row[kind] = {"on": on, "off": off, "units": round(on["units"] / off["units"], 3)}
        row[kind]["flushes"] = round(on["flushes"] / max(off["flushes"], 1), 3)
    # What the protection costs on a volume, by count. Each commit is a unit of the log at the least, and each flush a commit.
    on, off = row["volume"]["on"], row["volume"]["off"]
    row["rest"] = {"flushes": on["flushes"] - off["flushes"]}
    row["rest"].update({of: on["by_class"][of] - off["by_class"][of] for of in on["by_class"]})
    row["found"] = found(name, on, off)
    must(row["bare"]["units"] > 1.02 or name in ("sqlite", "sqlite-journaled"), f"on the bare device {name} costs {row['bare']['units']}")
    return row


def line(row):
    """Returns a row of the table."""
    if "skipped" in row:
        return f"{row['case']:17} skipped: {row['skipped']}"
    parts = [f"{row['case']:17} {row['on and off']:34}"]
    for kind in KINDS:
        of = row[kind]
        parts.append(f"{kind} {of['on']['units']:8.0f} / {of['off']['units']:8.0f} units = {of['units']:.3f}, flushes {of['flushes']:.3f}")
    rest = row["rest"]
    parts.append(f"found {row['found']}")
    parts.append(f"rest {rest['data']} of data, {rest['log']} of the log, {rest['flushes']} flushes")
    return "  ".join(parts)


def table(options):
    """Runs all cases that are chosen."""
    chosen = os.environ.get("ONEFOLD_BENCH_TWICE", ",".join(CASES)).split(",")
    unknown = [name for name in chosen if name not in CASES]
    if unknown:
        raise onefold.Failed(f"ONEFOLD_BENCH_TWICE: unknown {', '.join(unknown)}; there are {', '.join(CASES)}")
    rows = {}
    with folder(options) as path:
        for name in chosen:
            try:
                rows[name] = case(path, name)
            except Missing as missing:
                rows[name] = {"case": name, "skipped": str(missing)}
            if not options.json:
                print(line(rows[name]), flush=True)
    os.makedirs(os.path.dirname(TABLE), exist_ok=True)
    with open(TABLE, "w", encoding="utf-8") as file:
        json.dump(rows, file, indent=1)
    return rows


def run(name, options):
    """Returns the greatest ratio of a volume, among the cases that this figure is about."""
    if not MADE:
        MADE.update(table(options))
    wanted = {"twice-written-ext4": EXT4_CASES, "twice-written-innodb": ("innodb",)}.get(name, tuple(CASES))
    ratios = {case: MADE[case]["volume"]["units"] for case in wanted if case in MADE and "volume" in MADE[case]}
    must(ratios, f"no case of {name} was measured")
    bare = {case: MADE[case]["bare"]["units"] for case in ratios}
    rest = {case: MADE[case]["rest"] for case in ratios}
    found = {case: MADE[case]["found"] for case in ratios}
    return {"value": max(ratios.values()), "volume": ratios, "bare": bare, "rest": rest, "found": found, "rows": MADE}
