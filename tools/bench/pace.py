"""Measures how accurate a slowed store is: by how much completions are later than the model's, as the server itself records it."""

import live
from block import onefold, roomy
from live import GIB, MIB, Place

MODEL = "tablet"
JOBS = (("randread", 1), ("randread", 32), ("randwrite", 1), ("randwrite", 32))


def run(_, options):
    made = {}
    with Place(roomy(options)) as place:
        for way, depth in JOBS:
            store = place.file(f"{way}{depth}")
            with open(store, "wb") as file:
                file.truncate(GIB // 4)
            # The file was written before: reading a hole costs nothing, and its first write is expensive.
            with open(store, "r+b") as file:
                for _ in range(256):
                    file.write(b"\1" * MIB)
            server = place.serve(store, "--passthrough", "--device-model", MODEL)
            bytes_a_second, cost = live.fio(server, options.seed, rw=way, bs="4k", iodepth=depth, size=GIB // 4)
            slowed = onefold.report("status", store)["attached"]["condition"]["slowed"]
            server.detach()
            excess = slowed["late_us_mean"] + slowed["overslept_us_mean"]
            made[f"{way}, depth {depth}"] = {
                "percent": round(100 * excess / slowed["model_us_mean"], 2),
                "commands": slowed["commands"],
                "store late": slowed["late_commands"],
                "model_us": round(slowed["model_us_mean"], 1),
                "late_us": round(slowed["late_us_mean"], 2),
                "overslept_us": round(slowed["overslept_us_mean"], 2),
                "commands a second": round(bytes_a_second / 4096, 1),
                **cost,
            }
    return {"value": max(job["percent"] for job in made.values()), "model": MODEL, "store in": options.dir, **made}
