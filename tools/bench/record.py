"""Benchmarks of recording: its cost for clients, with and without a recording in turn, on the same server."""

import contextlib
import os
import shutil
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import live  # noqa: E402
import onefold  # noqa: E402
from live import GIB, MIB, RUNS, Place  # noqa: E402


def requests(store):
    """Returns the number of requests that clients sent to an attached store."""
    return sum(count["operations"] for count in onefold.report("stats", store)["client"])


def writes(server, seed, **more):
    """Runs 4 KiB random unique writes for RUN_S seconds, and returns fio's account of them."""
    return live.job(server, seed, size=GIB, rw="randwrite", bs="4k", norandommap=1, **more)["write"]


@contextlib.contextmanager
def disk(options, *words_of_attach):
    """Attaches a written file as passthrough."""
    with Place(options) as place:
        store = place.file("disk")
        words = ["dd", "if=/dev/zero", f"of={store}", "bs=1M", f"count={GIB // MIB}", "oflag=direct"]
        subprocess.run(words, check=True, stderr=subprocess.DEVNULL)
        server = place.serve(store, "--passthrough", *words_of_attach)
        yield place, store, server
        server.detach()


def pairs(place, store, server, seed, **more):
    """Makes RUNS runs without and with a recording, alternating the first of each pair, and returns [(plain, recorded, summary)]."""
    found = []
    trace = place.file("trace")
    for number in range(RUNS):
        runs = {}
        for recorded in (number % 2 == 0, number % 2 == 1):
            recorder = onefold.Recorder(store, trace) if recorded else None
            before = requests(store)
            runs[recorded] = writes(server, seed * 100 + number, **more)
            if recorder:
                sent = requests(store) - before
                summary = recorder.end()
                shutil.rmtree(trace)
        if summary["records"] + summary["gaps"] != sent:
            raise onefold.Failed(f"{summary['records']} records and {summary['gaps']} missing, of {sent} requests")
        found.append((runs[False], runs[True], summary))
    return found


def latency(options, *words_of_attach):
    """Returns the percentage that recording adds to the mean latency at half of the highest rate. A gap counts as 100 %."""
    with disk(options, *words_of_attach) as (place, store, server):
        writes(server, options.seed)
        highest = statistics.median(writes(server, options.seed * 10 + n)["iops"] for n in range(3))
        found = pairs(place, store, server, options.seed, rate_iops=int(highest / 2))
    mean = [[pair[i]["lat_ns"]["mean"] / 1000 for pair in found] for i in (0, 1)]
    tail = [[pair[i]["clat_ns"]["percentile"]["99.000000"] / 1000 for pair in found] for i in (0, 1)]
    added = [100 * (after / before - 1) for before, after in zip(*mean)]
    gaps = sum(pair[2]["gaps"] for pair in found)
    return {
        "value": round(statistics.median(added), 2) if gaps == 0 else 100,
        "added in each pair, %": [round(each, 1) for each in added],
        "mean µs": {"without": [round(us, 1) for us in mean[0]], "with": [round(us, 1) for us in mean[1]]},
        "99th percentile µs": {"without": [round(us) for us in tail[0]], "with": [round(us) for us in tail[1]]},
        "writes/s": {"highest": round(highest), "here": [round(pair[1]["iops"]) for pair in found]},
        "requests missing": gaps,
        "records": sum(pair[2]["records"] for pair in found),
        "cores": os.cpu_count(),
    }


def latency_on_flash(options):
    """Measures the same on a store slowed to a model of flash: there the device is the bottleneck, and not the machine's processors."""
    return latency(options, "--device-model", "tablet")


def throughput(options):
    """Returns the highest throughput with a recording divided by that without one."""
    with disk(options) as (place, store, server):
        writes(server, options.seed)
        found = pairs(place, store, server, options.seed)
    speeds = [[pair[i]["bw_bytes"] / MIB for pair in found] for i in (0, 1)]
    ratios = [after / before for before, after in zip(*speeds)]
    return {
        "value": round(statistics.median(ratios), 3),
        "ratio of each pair": [round(ratio, 3) for ratio in ratios],
        "MiB/s": {"without": [round(speed, 1) for speed in speeds[0]], "with": [round(speed, 1) for speed in speeds[1]]},
        "requests missing": [pair[2]["gaps"] for pair in found],
        "records": [pair[2]["records"] for pair in found],
        "records and missing": "are the requests that the server counted, in each run",
        "cores": os.cpu_count(),
    }


def run(name, options):
    return {"record-latency": latency, "record-latency-flash": latency_on_flash, "record-throughput": throughput}[name](options)
