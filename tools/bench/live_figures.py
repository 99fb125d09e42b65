"""OrderMergeDedup's Figures 2 (B) and 3 (B), and the processor of its section 4.5, live: recorded workloads on a slowed store.

`onefold-lab trace replay --on` sends the phase `run` of a trace, with the recorded think times, to the bare store and to a volume in turn,
over FUSE and a loop device, with the model of the paper's device below. What came before that phase is there already: it was sent without
think times at full speed. Run time counts from the first request to the last answer, processor time is that of the server's processes,
hashing included, meanwhile and until everything is flushed. Each case runs ONEFOLD_BENCH_LIVE_RUNS times (5) on a new store. The schemes of
a trace that mostly thinks run at once.

What was measured is left in target/live-figures.json, which `./dev bench papers` shows; cases that were not measured again stay there.
ONEFOLD_BENCH_LIVE_TRACES and ONEFOLD_BENCH_LIVE_SCHEMES choose cases.
"""

import concurrent.futures
import fcntl
import glob
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

from block import MIB, UNIT, Attached, Disk, onefold, roomy, since
from live import Place

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
FILE = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "live-figures.json")
RUNS = int(os.environ.get("ONEFOLD_BENCH_LIVE_RUNS", "5"))
# The trace of each workload, and the model of the device on which the paper ran it.
TRACES = {
    "01_apt_update": "tablet", "02_apt_install": "tablet", "04_browse_firefox": "tablet", "08_ycsb_wiredtiger": "850pro",
}
# It writes 36,000 blocks in four minutes.
THINKS = "04_browse_firefox"
SCHEMES = {
    "passthrough": ("--passthrough",),
    "ordered weak": ("--commit-mode", "ordered", "--persistence", "weak"),
    "ordered strong": ("--commit-mode", "ordered", "--persistence", "strong"),
    "log weak": ("--commit-mode", "log", "--persistence", "weak"),
    "log strong": ("--commit-mode", "log", "--persistence", "strong"),
}
# The largest increases of run time, of the paper's default and under strong persistence.
MOST = {"ordered weak": 1.03, "ordered strong": 1.10}
RAPL = "/sys/class/powercap/intel-rapl:*/energy_uj"


def chosen(variable, known):
    words = os.environ.get(variable)
    return words.split(",") if words else list(known)


def joules():
    """Returns what the processors' packages have used so far, or none where the machine does not count it."""
    counters = [path for path in glob.glob(RAPL) if os.path.basename(os.path.dirname(path)).count(":") == 1]
    values = []
    for path in counters:
        with open(path, encoding="ascii") as file:
            values.append(int(file.read()) / 1e6)
    return sum(values) if values else None


class Parts:
    """A trace, and the part of it before the phase `run` and that phase as folders of their own."""

    def __init__(self, place, trace):
        self.trace = trace
        base = os.path.join(ROOT, "data", "traces", trace)
        with open(f"{base}.json", encoding="utf-8") as file:
            self.logical = json.load(file)["size_4k"] * UNIT
        begins = next(phase["begin_ns"] for phase in onefold.report("trace", "info", f"{base}.tsv.zst")["phases"] if phase["name"] == "run")
        self.before, self.run = place.file(f"{trace}.before"), place.file(f"{trace}.run")
        onefold.run("trace", "cut", f"{base}.tsv.zst", self.before, "--time", f"..{begins / 1e9:.6f}")
        onefold.run("trace", "cut", f"{base}.tsv.zst", self.run, "--phase", "run")

    def remove(self):
        for part in (self.before, self.run):
            shutil.rmtree(part)


def replay(part, device, *more):
    return json.loads(onefold.run("trace", "replay", part, "--on", device, "--force", "--json", *more, timeout=3600).stdout)


def detach(attached):
    """Detaches, and waits for another attachment that looks at this device meanwhile."""
    for _ in range(50):
        try:
            return attached.detach()
        except onefold.Failed as error:
            if "still open" not in str(error):
                raise
            time.sleep(0.2)
    return attached.detach()


def once(place, parts, model, scheme, number):
    """Makes one run on a new store, which is attached at full speed until the measured phase begins."""
    options = SCHEMES[scheme]
    disk = Disk(place.file(f"{parts.trace}.{scheme.replace(' ', '-')}.{number}"), parts.logical + parts.logical // 32 + 64 * MIB)
    try:
        if scheme != "passthrough":
            onefold.run("create", disk.device, "--logical", parts.logical)
        attached = Attached(disk.device, *options)
        try:
            replay(parts.before, attached.device, "--no-think")
        finally:
            detach(attached)
        attached = Attached(disk.device, *options, "--device-model", model)
        try:
            kernel, energy, cpu, began = disk.counts(), joules(), attached.cpu_seconds(), time.monotonic()
            client = replay(parts.run, attached.device)["whole"]
            seconds = time.monotonic() - began
            # What a volume has not written yet belongs to the run.
            subprocess.run(["blockdev", "--flushbufs", attached.device], check=True)
            cpu, slowed = attached.cpu_seconds() - cpu, attached.slowed()
            energy = joules() - energy if energy is not None else None
            linked = None if scheme == "passthrough" else onefold.report("stats", disk.device)["dedup"]["duplicates"]
        finally:
            detach(attached)
        units = since(disk.counts(), kernel)["bytes"] // UNIT
    finally:
        disk.close()
    if linked == 0:
        raise onefold.Failed(f"{parts.trace}, {scheme}: no duplicate was found, so the run says nothing of deduplication")
    return {
        "seconds": round(client.get("seconds", seconds), 3), "server_cpu_seconds": round(cpu, 3), "joules": energy,
        "client_units": client["client_units"], "units": units, "linked": linked,
        "late_percent": round(100 * (slowed["late_us_mean"] + slowed["overslept_us_mean"]) / slowed["model_us_mean"], 2),
    }


def leave(cases):
    """Puts cases into the file that the report takes, in the place of the same cases measured before. Returns all of them."""
    os.makedirs(os.path.dirname(FILE), exist_ok=True)
    with open(FILE, "a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        text = file.read()
        made = {(case["trace"], case["scheme"]) for case in cases}
        kept = [case for case in (json.loads(text)["cases"] if text else []) if (case["trace"], case["scheme"]) not in made]
        cases = sorted(kept + cases, key=lambda case: case["trace"])
        file.truncate(0)
        json.dump({"cores": os.cpu_count(), "cases": cases}, file, indent=1)
    return cases


def ratios_of(cases):
    """Returns the mean run time of each case, over that of the bare store."""
    mean = {(case["trace"], case["scheme"]): statistics.mean(run["seconds"] for run in case["runs"]) for case in cases}
    known = {case: mean[case] / mean[case[0], "passthrough"] for case in mean if (case[0], "passthrough") in mean}
    return {case: round(ratio, 4) for case, ratio in known.items() if case[1] != "passthrough"}


def round_of(place, parts, schemes, number):
    """Makes a run on each scheme."""
    with concurrent.futures.ThreadPoolExecutor(len(schemes) if parts.trace == THINKS else 1) as pool:
        runs = list(pool.map(lambda scheme: once(place, parts, TRACES[parts.trace], scheme, number), schemes))
    for scheme, run in zip(schemes, runs):
        print(f"{parts.trace}, {scheme}, {number}: {run}", file=sys.stderr, flush=True)
    return runs


def run(_, options):
    """Returns the longest run time of a volume over that of the bare store, as a multiple of what it may be."""
    schemes, traces = chosen("ONEFOLD_BENCH_LIVE_SCHEMES", SCHEMES), chosen("ONEFOLD_BENCH_LIVE_TRACES", TRACES)
    cases = []
    with Place(roomy(options)) as place:
        for trace in traces:
            parts = Parts(place, trace)
            runs = {scheme: [] for scheme in schemes}
            for number in range(RUNS):
                for scheme, run_of in zip(schemes, round_of(place, parts, schemes, number)):
                    runs[scheme].append(run_of)
                cases = leave([{"trace": trace, "model": TRACES[trace], "scheme": scheme, "runs": of} for scheme, of in runs.items()])
            parts.remove()
    ratios = ratios_of(cases)
    over = [ratio / MOST[scheme] for (_, scheme), ratio in ratios.items() if scheme in MOST]
    shown = {f"{trace}, {scheme}": ratio for (trace, scheme), ratio in ratios.items()}
    return {"value": round(max(over), 4), "runs": RUNS, "run time against passthrough": shown, "left in": FILE}
