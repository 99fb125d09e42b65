"""Ships a recorded program: its trace as text in data/traces, and beside it the totals of that text, which this program counts by itself.

trace/tests/shipped.rs compares these totals with what `onefold-lab trace info` counts.
"""

import collections
import io
import json
import os
import subprocess
import time

import onefold
from debian import sh

SHIPPED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "data", "traces")
# The first 8 bytes of the MD5 of a block of zeros.
ZERO = "620f0b67a91f7f74"
NAME_DIGITS = len(ZERO)
# The phase before the first mark.
FIRST_PHASE = "mkfs"
# The processes that a phase lists: those that wrote most.
PROCESSES = 12


class Contents:
    """The content that each block holds, and all content that was ever written. A block of zeros is content like any other."""

    def __init__(self):
        self.held, self.holders, self.ever = {}, collections.Counter(), set()

    def write(self, block, name):
        """Returns whether the content had been written before, and whether some block held it."""
        was_ever, was_live = name in self.ever, self.holders[name] > 0 or (name == ZERO and name in self.ever)
        self.ever.add(name)
        self.clear(block)
        self.holders[name] += 1
        self.held[block] = name
        return was_ever, was_live

    def clear(self, block):
        name = self.held.pop(block, None)
        if name is not None:
            self.holders[name] -= 1

    def clear_range(self, first, count):
        if count > len(self.held):
            for block in [block for block in self.held if first <= block < first + count]:
                self.clear(block)
        else:
            for block in range(first, first + count):
                self.clear(block)


class Group:
    """The blocks that one kind of data or one process wrote."""

    def __init__(self):
        self.blocks = self.again = 0

    def facts(self):
        return {"n": self.blocks, "dup_ever_pct": percent(self.again, self.blocks)}


class Phase:
    """The counts of a phase."""

    def __init__(self, name, began):
        self.name, self.began = name, began
        self.counts = collections.Counter()
        self.between, self.since_flush = [], 0
        self.kinds, self.processes = collections.defaultdict(Group), collections.defaultdict(Group)

    def flush(self):
        self.counts["flush"] += 1
        self.between.append(self.since_flush)
        self.since_flush = 0

    def write(self, contents, first, names, kind, process):
        self.counts["write_req"] += 1
        groups = self.kinds[kind], self.processes[process]
        for block, name in enumerate(names, first):
            was_ever, was_live = contents.write(block, name)
            self.counts.update(write_4k=1, ever=was_ever, live=was_live, zero=name == ZERO)
            self.since_flush += 1
            for group in groups:
                group.blocks += 1
                group.again += was_ever

    def facts(self, ended):
        if self.since_flush:
            self.between.append(self.since_flush)
        written = self.counts["write_4k"]
        most = sorted(self.processes.items(), key=lambda of: -of[1].blocks)[:PROCESSES]
        return {
            "phase": self.name,
            "sec": round((ended - self.began) / 1e6, 2),
            **{name: self.counts[name] for name in ("write_4k", "write_req")},
            "dup_ever_pct": percent(self.counts["ever"], written),
            "dup_live_pct": percent(self.counts["live"], written),
            "zero_pct": percent(self.counts["zero"], written),
            **{name: self.counts[name] for name in ("flush", "read_req", "read_4k", "discard_4k")},
            "median_4k_between_flushes": sorted(self.between)[len(self.between) // 2] if self.between else 0,
            "kinds": {name: group.facts() for name, group in sorted(self.kinds.items())},
            "who": {name: group.facts() for name, group in most},
        }


def percent(part, of):
    return round(100 * part / of, 2) if of else 0


def counted(text):
    """Counts a compressed text, line by line."""
    contents, phases, whole, at, began = Contents(), [], collections.Counter(), 0, None
    with subprocess.Popen(["zstd", "-dc", "--long=27", text], stdout=subprocess.PIPE) as lines:
        for line in io.TextIOWrapper(lines.stdout, encoding="utf-8"):
            if line.startswith("#"):
                continue
            at, op, first, blocks, kind, _, process, names = line.rstrip("\n").split("\t")
            at, first, blocks = int(at), int(first), int(blocks)
            whole["requests"] += op != "M"
            if op == "M" or not phases:
                if phases:
                    phases[-1] = phases[-1].facts(at)
                phases.append(Phase(names if op == "M" else FIRST_PHASE, at))
            phase = phases[-1]
            if op == "W":
                if len(names) != blocks * NAME_DIGITS:
                    raise onefold.Failed(f"{text}: a write of {blocks} blocks has {len(names)} digits")
                parts = [names[i : i + NAME_DIGITS] for i in range(0, len(names), NAME_DIGITS)]
                phase.write(contents, first, parts, kind, process.rpartition("/")[0])
                whole["written"] += blocks
            elif op == "R":
                phase.counts.update(read_req=1, read_4k=blocks)
            elif op == "F":
                phase.flush()
            elif op in "DZ":
                phase.counts.update(discard_4k=blocks)
                contents.clear_range(first, blocks)
    if lines.returncode or not phases:
        raise onefold.Failed(f"{text} cannot be read")
    phases[-1] = phases[-1].facts(at)
    return {
        "requests": whole["requests"],
        "total_written_4k": whole["written"],
        "live_lbas": len(contents.held),
        "live_unique_contents": sum(1 for held in contents.holders.values() if held),
        "phases": phases,
    }


def ship(program, name, trace, gib, summary, about):
    """Writes data/traces/NAME.tsv.zst and NAME.json of the recording of a program."""
    text = os.path.join(SHIPPED, f"{name}.tsv")
    onefold.run("trace", "export", trace, text, "--to", "recorded", "--force", timeout=1200)
    sh(f"zstd -19 --long=27 --quiet --force --rm {text}")
    facts = {
        "name": name,
        "fs": "ext4",
        "size_4k": gib << 18,
        "script": f"./dev workloads record {program} --ship",
        "started": time.strftime("%Y-%m-%d"),
        "kernel": os.uname().release,
        "mount": "defaults",
        **about,
        "recorder": {key: summary[key] for key in ("by", "records", "blocks", "gaps", "blocks_known", "blocks_partial", "own_requests")},
        **counted(f"{text}.zst"),
        "trace_bytes": os.path.getsize(f"{text}.zst"),
    }
    with open(os.path.join(SHIPPED, f"{name}.json"), "w", encoding="ascii") as file:
        json.dump(facts, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    import sys

    print(json.dumps(counted(sys.argv[1]), indent=1))
