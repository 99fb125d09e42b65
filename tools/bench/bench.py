"""Runs benchmarks by name and judges their values; see tools/dev/bench.sh."""

import argparse
import importlib
import json
import operator
import os
import subprocess
import sys

import figures

HERE = os.path.dirname(os.path.abspath(__file__))
HOLDS = {"<=": operator.le, ">=": operator.ge, "==": operator.eq}
# A figure that is measured but has no target yet.
NO_TARGET = "-"


def benchmarks():
    """Returns the row of list.tsv for each name."""
    found = {}
    with open(os.path.join(HERE, "list.tsv"), encoding="utf-8") as file:
        for line in file:
            if not line.startswith("#") and line.strip():
                name, unit, holds, target, runner, what = line.rstrip("\n").split("\t")
                target = None if holds == NO_TARGET else float(target)
                found[name] = {"unit": unit, "op": holds, "target": target, "runner": runner, "what": what}
    return found


def wanted(row):
    return "none" if row["target"] is None else f"{row['op']} {row['target']:g}"


def commit():
    words = ["git", "-c", "safe.directory=*", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def measure(name, row, options):
    """Returns the value, and the measurements behind it."""
    if row["runner"] in ("counts", "flash", "steps", "sweeps"):
        # These runners print a figure with a target of its own, which equals that of list.tsv; the latter judges.
        words = [os.environ["ONEFOLD_SIM"], row["runner"], name, "--json", "--seed", str(options.seed)]
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
        figure = json.loads(done.stdout)
        if isinstance(figure, list):
            figure = figure[0]
        made = {"value": figure["value"], "detail": figure["detail"]}
    else:
        made = importlib.import_module(row["runner"]).run(name, options)
    return made.pop("value"), made


def main():
    parser = argparse.ArgumentParser(prog="./dev bench")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dir", default=os.environ.get("TMPDIR", "/var/tmp"))
    options = parser.parse_args()
    rows = benchmarks()
    if options.list:
        for name, row in rows.items():
            print(f"{name:20} {wanted(row)} {row['unit']:12} {row['runner']:9} {row['what']}")
        return 0
    names = [name for name, row in rows.items() if row["runner"] != "papers"] if options.all else options.names
    if not names:
        parser.error("give the name of a benchmark; ./dev bench --list shows the names")
    if not os.path.isdir(options.dir):
        parser.error(f"--dir {options.dir}: there is no such folder")
    for name in names:
        if name not in rows:
            parser.error(f"unknown benchmark '{name}'; ./dev bench --list shows the names")
        if rows[name]["runner"] == "papers":
            parser.error(f"{name} has options of its own and has to be run alone: ./dev bench {name}")
    table = figures.Table() if options.record else None
    missed = 0
    for name in names:
        row = rows[name]
        value, made = measure(name, row, options)
        holds = None if row["target"] is None else HOLDS[row["op"]](value, row["target"])
        missed += holds is False
        report = {
            "name": name,
            "value": value,
            "unit": row["unit"],
            "target": wanted(row),
            "holds": holds,
            "command": f"./dev bench {name} --seed {options.seed}",
            "seed": options.seed,
            "commit": table.commit if table else commit(),
            "made_of": made,
        }
        if options.json:
            print(json.dumps(report), flush=True)
        else:
            judged = {True: "holds", False: "MISSED", None: "no target yet"}[holds]
            print(f"{name}: {value:g} {row['unit']}, wanted {report['target']}: {judged}")
            print(f"  {row['what']}")
            print(f"  {report['command']}, commit {report['commit']}")
            for key, part in made.items():
                print(f"  {key}: {part}")
            sys.stdout.flush()
        if table:
            table.add(report, report["command"])
    return 1 if missed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except figures.Refused as refused:
        print(f"dev: {refused}", file=sys.stderr)
        sys.exit(2)
