"""Compares live replay with replay in virtual time: the same traces, the same counts.

Each trace is replayed by `onefold-lab trace replay --on` onto a volume that is attached over FUSE and loop, with the recorded think times,
and by `onefold-lab replay`. Both idle 62 s where a phase begins, on a device of the same model: how many writes come to wait together under
strong persistence depends on how long the device takes. All traces run at once: they mostly wait.
"""

import concurrent.futures
import json
import os
import sys
import time

from block import MIB, UNIT, Attached, Disk, onefold, roomy, since
from live import Place

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
TRACES = ("04_browse_firefox", "05_vehicle", "06_hadoop_grep", "10_phone_mix")
IDLE_S = 62
MODEL = "ufs"


def trace_path(name):
    return os.path.join(ROOT, "data", "traces", f"{name}.tsv.zst")


def blocks_of(name):
    with open(os.path.join(ROOT, "data", "traces", f"{name}.json"), encoding="utf-8") as file:
        return json.load(file)["size_4k"]


def replay_live(place, name, persistence):
    """Returns what reached the device from opening to close, by the kernel's counter, and the counts of the ledger and the client."""
    logical = blocks_of(name) * UNIT
    disk = Disk(place.file(f"{name}.{persistence}"), logical + logical // 32 + 64 * MIB)
    try:
        # The settings are those of the simulated scheme that it is compared with.
        onefold.run("create", disk.device, "--logical", logical, "--commit-mode", "ordered")
        created = disk.counts()
        volume = Attached(disk.device, "--persistence", persistence, "--device-model", MODEL)
        try:
            words = ["trace", "replay", trace_path(name), "--on", volume.device, "--idle", IDLE_S, "--verify"]
            began = time.monotonic()
            client = json.loads(onefold.run(*words, "--json", timeout=3600).stdout)
            seconds = time.monotonic() - began
            ledger, kernel = volume.counts(), since(disk.counts(), created)
            cpu_s, slowed = volume.cpu_seconds(), volume.slowed()
        finally:
            volume.detach()
        closing = since(since(disk.counts(), created), kernel)
        sound = onefold.report("check", disk.device)["sound"]
    finally:
        disk.close()
    for key in ("bytes", "flushes"):
        if ledger[key] != kernel[key]:
            raise onefold.Failed(f"{name}, {persistence}: the ledger has {ledger[key]} {key}, the kernel counted {kernel[key]}")
    if not sound:
        raise onefold.Failed(f"{name}, {persistence}: check finds damage after the detach")
    return {
        "client_units": client["whole"]["client_units"],
        "client_flushes": client["whole"]["client_flushes"] + client["whole"]["client_fua"],
        "verified_blocks": client["verified_blocks"],
        "device_units": ledger["units"] + -(-closing["bytes"] // UNIT),
        "device_flushes": kernel["flushes"] + closing["flushes"],
        "seconds": round(seconds, 1),
        "server_cpu_s": round(cpu_s, 2),
        "client_cpu_s": round(client["cpu_seconds"], 2),
        "slowed": slowed,
        "bytes_by_class": ledger["by_class"],
    }


def replay_simulated(name, persistence):
    words = ["replay", trace_path(name), "--persistence", persistence, "--device-model", MODEL]
    whole = onefold.report(*words, binary=os.environ["ONEFOLD_LAB"])["whole"]
    return {
        "client_units": whole["client_units"],
        "client_flushes": whole["client_flushes"] + whole["client_fua"],
        "device_units": whole["device_units_all"],
        "device_flushes": whole["device_flushes"],
        "units_by_class": whole["device_units"],
    }


def run(name, options):
    """Returns the largest difference, in percent, between a live count and the same count simulated."""
    persistence = {"replay-live": "weak", "replay-live-strong": "strong"}[name]
    with Place(roomy(options)) as place, concurrent.futures.ThreadPoolExecutor() as pool:
        live = dict(zip(TRACES, pool.map(lambda trace: replay_live(place, trace, persistence), TRACES)))
    made, worst = {}, 0.0
    for trace, here in live.items():
        there = replay_simulated(trace, persistence)
        if here["client_units"] != there["client_units"]:
            raise onefold.Failed(f"{trace}: {here['client_units']} client units live, {there['client_units']} simulated")
        off = {key: round(100 * (here[key] / there[key] - 1), 2) for key in ("device_units", "device_flushes")}
        worst = max(worst, *map(abs, off.values()))
        made[trace] = {"off_percent": off, "live": here, "simulated": there}
        print(f"{trace}: {off}", file=sys.stderr, flush=True)
    return {"value": worst, "model": MODEL, "store in": options.dir, **made}
