"""What it spares to keep short-lived data out of the index and out of packs: databases on ext4 on a volume, over FUSE and loop, with rules
for the files of their logs and without, in turn.

SQLite with a rollback journal and with a write-ahead log, PostgreSQL under pgbench, InnoDB (MariaDB); and the recorded trace of SQLite in
each mode, replayed on the volume, where the log is ext4's, by its LBNs: a trace knows no files and no compressed sizes. The kernel counts
units and flushes of the disk below, from the end of the setup until the volume is detached. Dead slots are counted on the store after that:
pieces of a carrier or a pack that no LBN means any more, while another piece of it is still meant. They take room until all are unused.

Environment: ONEFOLD_BENCH_SHORT (sqlite,wal,postgres,innodb,recorded) chooses among the cases, ONEFOLD_BENCH_SHORT_PAIRS (1) repeats them,
ONEFOLD_BENCH_SHORT_PERCENT (100) makes the loads smaller or larger, ONEFOLD_BENCH_SHORT_ACTS (noindex,nocompress) gives the rules' acts.
"""

import json
import os
import random

from block import MIB, UNIT, onefold
from databases import InnoDb, Missing, Postgres
from hinted import Mounted, folder, must, number
from journaled import Base
from medium import Medium

SIZE = 3072 * MIB
TRACE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "data", "traces", "11_sqlite_modes")
SQLITE_ROWS, SQLITE_TRANSACTIONS, SQLITE_CHANGES = 40_000, 600, 12
POSTGRES_TRANSACTIONS, INNODB_TRANSACTIONS = 6000, 3000
FILES = {"sqlite": "*-journal", "wal": "*-wal", "postgres": "0000000?????????????????", "innodb": "ib_logfile*"}
CASES = (*FILES, "recorded")
# A rule that matched fewer blocks has not been tried, and a load with fewer units is none.
MATCHED_LEAST, UNITS_LEAST = 2000, 5000
SHOWN = ("units", "flushes", "log", "data", "dead_slots", "partly_dead", "carriers", "used_blocks", "index_entries")
VOCABULARY, LETTERS = 400, "etaoinshrdlu"
MADE = {}


class Sqlite:
    """Rows of words and numbers, of which each transaction adds some and changes others."""

    MODE = "delete"

    def __init__(self, at, transactions):
        self.path, self.transactions, self.draw = f"{at}/rows.db", transactions, random.Random(1)
        self.words = ["".join(self.draw.choices(LETTERS, k=self.draw.randrange(2, 10))) for _ in range(VOCABULARY)]

    def row(self):
        return self.draw.randrange(1000), " ".join(self.draw.choices(self.words, k=20)) + f" {self.draw.randrange(1 << 40)}"

    def setup(self):
        self.base = Base(self.path, self.MODE)
        self.base.commit([
            ("create table rows (id integer primary key, thread integer, body text)", ()),
            ("create index by_thread on rows (thread)", ()),
            *(("insert into rows (thread, body) values (?, ?)", self.row()) for _ in range(SQLITE_ROWS)),
        ])

    def run(self):
        insert, update = "insert into rows (thread, body) values (?, ?)", "update rows set thread = ?, body = ? where id = ?"
        for _ in range(self.transactions):
            changes = ((update, (*self.row(), self.draw.randrange(1, SQLITE_ROWS))) for _ in range(SQLITE_CHANGES))
            self.base.commit([(insert, self.row()), *changes])
        self.base.close()

    def close(self):
        pass


class Wal(Sqlite):
    """The same with a write-ahead log."""

    MODE = "wal"


class Recorded:
    """A recorded trace, sent to the volume without its think times."""

    def __init__(self, device):
        self.device = device

    def setup(self):
        pass

    def run(self):
        onefold.run("trace", "replay", f"{TRACE}.tsv.zst", "--on", self.device, "--no-think", "--force")

    def close(self):
        pass


def load(name, mounted):
    """Returns the program of a case, with its size."""
    percent, at = number("SHORT_PERCENT", 100), mounted.files
    if name == "recorded":
        return Recorded(mounted.device)
    if name == "postgres":
        # Its log's files are used again, as they are by default.
        return Postgres(at, True, POSTGRES_TRANSACTIONS * percent // 100, wal_recycle="on")
    if name == "innodb":
        return InnoDb(at, True, INNODB_TRANSACTIONS * percent // 100)
    return {"sqlite": Sqlite, "wal": Wal}[name](at, SQLITE_TRANSACTIONS * percent // 100)


def condition(name):
    """Returns the condition by which the log of a case is known."""
    if name != "recorded":
        return ("--file", FILES[name])
    with open(f"{TRACE}.json", encoding="ascii") as file:
        (first, last), = json.load(file)["journal_extents"]
    return ("--lbn", f"{first}-{last}")


def rules(name):
    acts = os.environ.get("ONEFOLD_BENCH_SHORT_ACTS", "noindex,nocompress")
    of_logs = (name,) if name == "recorded" else FILES
    return [("add", acts, *condition(of)) for of in of_logs] + [("add", acts, "--lifetime", "short")]


def counted(path, name, is_on):
    """Runs one load on a new volume, and returns what reached the disk and what is left on it."""
    bare = {"mkfs": ("true",), "mount": None} if name == "recorded" else {}
    with Mounted(path, SIZE, rules=rules(name) if is_on else (), **bare) as mounted:
        program = load(name, mounted)
        mounted.undo.callback(program.close)
        program.setup()
        mounted.settle()
        before, said, stats = mounted.counts(), mounted.attached.counts(), mounted.stats()
        program.run()
        if not bare:
            mounted.unmount()
        now, after = mounted.attached.counts(), mounted.stats()
        classes = {key: (now["by_class"][key] - said["by_class"][key]) // UNIT for key in now["by_class"]}
        made = {"client_units": now["client_units"] - said["client_units"], **classes}
        for part, keys in (("dedup", ("duplicates", "new_blocks", "unchanged")), ("packing", ("packed_blocks", "carrier_units", "packs"))):
            made.update({key: after[part][key] - stats[part][key] for key in keys})
        made["index_entries"] = after["dedup"]["index_entries"]
        made["used_blocks"] = after["space"]["unique_blocks"] + after["space"]["shared_blocks"]
        made["matched"] = {rule["conditions"]: rule["matched_blocks"] for rule in after["hints"]["rules"]}
        mounted.detach()
        made.update(mounted.since(before))
        made.update(Medium(mounted.disk.device).slots())
    must(made["units"] >= UNITS_LEAST * number("SHORT_PERCENT", 100) // 100, f"{name} wrote {made['units']} units")
    matched = max((blocks for of, blocks in made["matched"].items() if condition(name)[1] in of), default=0)
    must(is_on == (matched >= MATCHED_LEAST * number("SHORT_PERCENT", 100) // 100), f"{name}: the rules matched {made['matched']}")
    return made


def line(name, on, off):
    """Returns a row of the table."""
    parts = (f"{key} {on[key]:.0f} / {off[key]:.0f} = {on[key] / max(off[key], 1):.3f}" for key in SHOWN)
    return f"{name:9}" + "  ".join(parts)


def table(options):
    """Runs all cases that are chosen, and returns the runs of each."""
    chosen = os.environ.get("ONEFOLD_BENCH_SHORT", ",".join(CASES)).split(",")
    unknown = [name for name in chosen if name not in CASES]
    if unknown:
        raise onefold.Failed(f"ONEFOLD_BENCH_SHORT: unknown {', '.join(unknown)}; there are {', '.join(CASES)}")
    made = {name: [] for name in chosen}
    with folder(options) as path:
        for pair in range(number("SHORT_PAIRS", 1)):
            for at, name in enumerate(chosen):
                # The first of a pair changes, so that a drift of the machine is nobody's own.
                turn = (True, False) if (at + pair) % 2 else (False, True)
                try:
                    runs = {is_on: counted(os.path.join(path, f"{name}-{pair}-{is_on}"), name, is_on) for is_on in turn}
                except Missing as missing:
                    print(f"{name:9}skipped: {missing}", flush=True)
                    continue
                made[name].append({"on": runs[True], "off": runs[False]})
                if not options.json:
                    print(line(name, runs[True], runs[False]), flush=True)
    return {name: runs for name, runs in made.items() if runs}


def run(name, options):
    """Returns the greatest ratio of units, or of dead slots, on to off. One measurement is for both."""
    if not MADE:
        MADE.update(table(options))
    must(MADE, "there is no database")
    key = {"short-lived": "units", "short-lived-slots": "dead_slots"}[name]
    ratios = {case: sum(run["on"][key] for run in runs) / max(sum(run["off"][key] for run in runs), 1) for case, runs in MADE.items()}
    return {"value": round(max(ratios.values()), 3), "ratios": {case: round(ratio, 3) for case, ratio in ratios.items()}, "runs": MADE}
