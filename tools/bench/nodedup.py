"""What the rule `nodedup --file 'unique*'` spares the server: `dd` of unique content to a file of ext4, over FUSE and loop.

Runs with the rule and without it alternate, each on a new volume; the same on the bare store, by way of `--passthrough`, says what units
the load itself costs. The processor time is the server's own, from before the load until the file system is unmounted; units are those
of the disk below, until the volume is detached.

Environment: ONEFOLD_BENCH_NODEDUP_MIB (4096), ONEFOLD_BENCH_NODEDUP_PAIRS (3).
"""

import statistics
import time

from block import MIB, UNIT, call
from hinted import Mounted, folder, must, number

RULE = ("add", "nodedup", "--file", "unique*")
KINDS = {"hinted": ("volume", (RULE,)), "unhinted": ("volume", ()), "passthrough": ("passthrough", ())}
# Of the load's blocks, this part must have matched the rule.
MATCHED_LEAST = 0.999
MADE = {}


def load(path, mib, kind):
    """Runs the load once on a new volume."""
    base, rules = KINDS[kind]
    with Mounted(path, (mib * 5 // 4 + 512) * MIB, kind=base, rules=rules) as mounted:
        mounted.settle()
        units, cpu, began = mounted.counts()["units"], mounted.attached.cpu_seconds(), time.monotonic()
        call("dd", "if=/dev/urandom", f"of={mounted.files}/unique.bin", "bs=1M", f"count={mib}", "conv=fsync", "status=none")
        seconds = time.monotonic() - began
        mounted.unmount()
        made = {"cpu_s": round(mounted.attached.cpu_seconds() - cpu, 2), "seconds": round(seconds, 2)}
        if base == "volume":
            stats = mounted.stats()
            matched = sum(rule["matched_blocks"] for rule in stats["hints"]["rules"])
            blocks = mib * MIB // UNIT
            new = stats["dedup"]["new_blocks"]
            must(new >= blocks, f"{new} new blocks of {blocks}: the content was not unique")
            must(matched >= blocks * MATCHED_LEAST or not rules, f"the rule matched {matched} of {blocks} blocks")
            # What has no fingerprint is in no index.
            entries = stats["dedup"]["index_entries"]
            must((entries < blocks * (1 - MATCHED_LEAST) + 1000) == bool(rules), f"the index has {entries} entries, {kind}")
            by_class = {of: count // UNIT for of, count in mounted.attached.counts()["by_class"].items() if count}
            made.update(matched=matched, index_entries=entries, by_class=by_class, observer=stats["hints"]["observer"])
        mounted.detach()
        made["units"] = mounted.counts()["units"] - units
        must(made["units"] >= mib * MIB / UNIT, f"{made['units']} units reached the disk")
    return made


def compared(options):
    """Runs all pairs, and returns their medians and ratios."""
    mib, pairs = number("NODEDUP_MIB", 4096), number("NODEDUP_PAIRS", 3)
    found = {kind: [] for kind in KINDS}
    with folder(options) as path:
        for at in range(pairs):
            # The first of a pair changes, so that a drift of the machine is nobody's own.
            turn = ("hinted", "unhinted") if at % 2 == 0 else ("unhinted", "hinted")
            for kind in (*turn, *(("passthrough",) if at == 0 else ())):
                found[kind].append(load(path, mib, kind))
                if not options.json:
                    print(f"{kind}: {found[kind][-1]}", flush=True)
    keys = ("cpu_s", "seconds", "units")
    median = {kind: {key: statistics.median(run[key] for run in runs) for key in keys} for kind, runs in found.items()}
    hinted, unhinted, passthrough = (median[kind] for kind in KINDS)
    return {
        "cpu": round(hinted["cpu_s"] / unhinted["cpu_s"], 3),
        "time": round(hinted["seconds"] / unhinted["seconds"], 3),
        "units": round(100 * abs(hinted["units"] / passthrough["units"] - 1), 3),
        "units unhinted": round(100 * (unhinted["units"] / passthrough["units"] - 1), 3),
        "medians": median,
        "runs": found,
        "MiB": mib,
    }


def run(name, options):
    """Returns the figure of this name. One measurement is for both."""
    if not MADE:
        MADE.update(compared(options))
    return {"value": MADE[{"nodedup-cpu": "cpu", "nodedup-units": "units"}[name]], **MADE}
