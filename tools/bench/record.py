"""Benchmarks of recording: its cost for clients, with and without a recording in turn, on the same server.

Over NBD the server records. A volume that is a block device is recorded by the kernel, or by its server: record-latency-block has both.
"""

import contextlib
import json
import os
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import live  # noqa: E402
import onefold  # noqa: E402
from block import Attached  # noqa: E402
from live import GIB, MIB, RUN_S, RUNS, Place  # noqa: E402


def requests(store):
    """Returns the number of requests that clients sent to an attached store."""
    return sum(count["operations"] for count in onefold.report("stats", store)["client"])


def writes(server, seed, **more):
    """Runs 4 KiB random unique writes for RUN_S seconds, and returns fio's account of them."""
    return live.job(server, seed, size=GIB, rw="randwrite", bs="4k", norandommap=1, **more)["write"]


def written_file(place):
    store = place.file("disk")
    words = ["dd", "if=/dev/zero", f"of={store}", "bs=1M", f"count={GIB // MIB}", "oflag=direct"]
    subprocess.run(words, check=True, stderr=subprocess.DEVNULL)
    return store


@contextlib.contextmanager
def disk(options, *words_of_attach):
    """Attaches a written file as passthrough."""
    with Place(options) as place:
        store = written_file(place)
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
                os.unlink(trace)
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


def block_writes(device, seed, **more):
    """Runs 4 KiB random unique writes on a block device for RUN_S seconds, and returns fio's account of them."""
    settings = {
        "name": "job", "filename": device, "ioengine": "libaio", "direct": 1, "iodepth": 32, "rw": "randwrite", "bs": "4k", "size": GIB,
        "norandommap": 1, "time_based": 1, "runtime": RUN_S, "randseed": seed, "buffer_compress_percentage": 0, "refill_buffers": 1, **more,
    }
    words = ["fio", "--output-format=json", *(f"--{key}={value}" for key, value in settings.items())]
    said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return json.loads(said[said.index("{") :])["jobs"][0]["write"]


def latency_of_block_device(options):
    """Returns the percentage that a recording by the kernel adds at half of the highest rate; what was missed counts as 100 %."""
    ways = {"none": None, "kernel": ("--by", "kernel", "--ring", "64M", "--no-reads"), "server": ("--by", "server")}
    means, missing, added = {way: [] for way in ways}, {way: 0 for way in ways}, {}
    with Place(options) as place:
        store, trace = written_file(place), place.file("trace")
        attached = Attached(store, "--passthrough")
        try:
            block_writes(attached.device, options.seed)
            highest = statistics.median(block_writes(attached.device, options.seed * 10 + n)["iops"] for n in range(3))
            for number in range(RUNS):
                # Each of them is first, second and last in turn.
                for way in [list(ways)[(number + n) % len(ways)] for n in range(len(ways))]:
                    recorder = onefold.Recorder(store, trace, *ways[way]) if ways[way] else None
                    account = block_writes(attached.device, options.seed * 100 + number, rate_iops=int(highest / 2))
                    means[way].append(account["lat_ns"]["mean"] / 1000)
                    if recorder:
                        summary = recorder.end()
                        os.unlink(trace)
                        missing[way] += summary["gaps"] + summary.get("blocks_without_room", 0)
                        if summary["records"] + summary["gaps"] < account["total_ios"]:
                            raise onefold.Failed(f"{summary} of {account['total_ios']} writes")
        finally:
            attached.detach()
    for way in ("kernel", "server"):
        added[way] = [100 * (after / before - 1) for before, after in zip(means["none"], means[way])]
    return {
        "value": round(statistics.median(added["kernel"]), 2) if missing["kernel"] == 0 else 100,
        "by the server, %": round(statistics.median(added["server"]), 2),
        "added in each round, %": {way: [round(each, 1) for each in found] for way, found in added.items()},
        "mean µs": {way: [round(us, 1) for us in found] for way, found in means.items()},
        "missing": missing,
        "writes/s at most": round(highest),
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
    made = {
        "record-latency": latency,
        "record-latency-block": latency_of_block_device,
        "record-latency-flash": latency_on_flash,
        "record-throughput": throughput,
    }
    return made[name](options)
