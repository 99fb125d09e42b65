"""Computes Tables I and II of `onefold-lab trace analyze` by SQL, on DataFusion or on Spark; see tools/dev/sql.sh."""

import argparse
import json
import os
import resource
import shutil
import sys
import tempfile
import time

import pyarrow
import pyarrow.parquet

HERE = os.path.dirname(os.path.abspath(__file__))
# The statements in order: a view, tables that are kept on disk, and tables whose rows are few.
VIEW, STORED, SMALL = "view", "stored", "small"
STEPS = (("chunks", VIEW), ("written", STORED), ("common", STORED), ("table_1", SMALL), ("table_2", SMALL), ("found", SMALL))
# Each unsigned column is made a signed one: Spark reads unsigned ones of 64 bits as decimals.
REQUESTS = """SELECT {application} AS application, '{trace}' AS trace, op, CAST(time_ns AS BIGINT) AS time_ns,
 CAST({offset} AS BIGINT) AS begin_at, CAST({offset} AS BIGINT) + CAST(length AS BIGINT) AS end_at, CAST(length AS BIGINT) AS bytes,
 fingerprints FROM {table}"""


class Refused(Exception):
    """Nothing can be computed; the message says what to do."""


def statement(name):
    with open(os.path.join(HERE, f"{name}.sql"), encoding="utf-8") as file:
        return file.read()


class DataFusion:
    """The statements are Spark's. DataFusion has all of their functions but `explode`, which it calls `unnest`."""

    QUOTE = '"'

    def __init__(self, options, work):
        import datafusion

        pool = datafusion.RuntimeEnvBuilder().with_fair_spill_pool(options.memory).with_disk_manager_specified(work)
        config = datafusion.SessionConfig().with_target_partitions(options.threads)
        # A join that sorts goes to disk when memory is used up; a join by hashes ends.
        config = config.set("datafusion.optimizer.prefer_hash_join", "false")
        self.context = datafusion.SessionContext(config, pool)
        self.context.enable_spark_functions()
        self.work = work

    def folder(self, table, folder):
        self.context.register_parquet(table, folder)

    def view(self, name, sql):
        self.context.sql(f"CREATE VIEW {name} AS {sql.replace('explode(', 'unnest(')}").collect()

    def stored(self, name, sql):
        folder = os.path.join(self.work, name)
        os.mkdir(folder)
        self.context.sql(sql).write_parquet(folder, compression="uncompressed")
        # Without any row there is no file.
        if os.listdir(folder):
            self.context.register_parquet(name, folder)
        else:
            self.view(name, sql)

    def small(self, name, sql):
        table = self.context.sql(sql).to_arrow_table()
        batches = table.to_batches() or [pyarrow.RecordBatch.from_pylist([], table.schema)]
        self.context.register_record_batches(name, [batches])
        return table.to_pylist()


class Spark:
    """The same statements on Spark."""

    QUOTE = "`"

    def __init__(self, options, work):
        from pyspark.sql import SparkSession

        memory = f"{options.memory >> 20}m"
        builder = SparkSession.builder.master(f"local[{options.threads}]")
        chosen = {"driver.memory": memory, "local.dir": work, "log.level": "ERROR", "ui.enabled": "false"}
        chosen["ui.showConsoleProgress"] = "false"
        for name, value in chosen.items():
            builder = builder.config(f"spark.{name}", value)
        self.session = builder.getOrCreate()
        self.work = work

    def folder(self, table, folder):
        self.session.read.parquet(folder).createOrReplaceTempView(table)

    def view(self, name, sql):
        self.session.sql(sql).createOrReplaceTempView(name)

    def stored(self, name, sql):
        folder = os.path.join(self.work, name)
        self.session.sql(sql).write.parquet(folder)
        self.folder(name, folder)

    def small(self, name, sql):
        frame = self.session.sql(sql).cache()
        frame.createOrReplaceTempView(name)
        return [row.asDict() for row in frame.collect()]


def check(folder):
    """Refuses what the statements cannot count."""
    files = sorted(name for name in os.listdir(folder) if name.endswith(".parquet")) if os.path.isdir(folder) else []
    if not files:
        raise Refused(f"{folder} has no file named like 000000.parquet; `onefold-lab trace import` makes a folder of a text")
    metadata = pyarrow.parquet.read_metadata(os.path.join(folder, files[0])).metadata or {}
    unit = metadata.get(b"onefold.unit_bytes", b"").decode()
    if unit != "4096":
        raise Refused(f"{folder} has a fingerprint for each {unit or '?'} bytes, not 4096; `onefold-lab trace analyze` counts such traces")


def requests(engine, folders, by):
    """Makes the view of all requests, with the application of each."""
    names = [os.path.basename(os.path.abspath(folder)) for folder in folders]
    parts = []
    for number, (folder, name) in enumerate(zip(folders, names)):
        check(folder)
        if names.count(name) > 1:
            name = folder
        if "'" in name or "\\" in name:
            raise Refused(f"{folder}: give a folder without quotes and backslashes in its name")
        table, offset = f"folder_{number}", f"{engine.QUOTE}offset{engine.QUOTE}"
        engine.folder(table, folder)
        application = f"'{name}'" if by == "trace" else f"COALESCE({by}, '(unknown)')"
        parts.append(REQUESTS.format(application=application, trace=name, offset=offset, table=table))
    engine.view("requests", "\nUNION ALL\n".join(parts))


def mean(values):
    values = [value for value in values if value is not None]
    return sum(values) / len(values) if values else None


def sharing(rows, pairs, diagonal, share):
    """Table II as a list of rows, like `onefold-lab trace analyze --json`."""
    known = {(pair["name"], pair["other"]): pair[share] for pair in pairs}

    def cell(row, column):
        if row is column:
            return row[diagonal]
        return known.get((row["name"], column["name"]), 0.0) if row["chunks"] else None

    cells = [[cell(row, column) for column in rows] for row in rows]
    return {"cells": cells, "mean": mean(value for i, row in enumerate(cells) for j, value in enumerate(row) if i != j)}


def analyze(options, work):
    began = time.monotonic()
    engine = {"datafusion": DataFusion, "spark": Spark}[options.engine](options, work)
    requests(engine, options.folders, options.by)
    made, seconds = {}, {}
    for name, kind in STEPS:
        at = time.monotonic()
        made[name] = getattr(engine, kind)(name, statement(name))
        seconds[name] = round(time.monotonic() - at, 2)
    rows, pairs = made["table_1"], made["table_2"]
    return {
        "applications": rows,
        "sharing": sharing(rows, pairs, "redundancy", "share"),
        "sharing_without_zeros": sharing(rows, pairs, "redundancy_without_zeros", "share_without_zeros"),
        "found": made["found"][0],
        "engine": options.engine,
        "seconds": round(time.monotonic() - began, 2),
        "seconds_of": seconds,
        # Of Spark, whose memory is another process's, it is only that of this one.
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def percent(share):
    return "-" if share is None else f"{share * 100:.1f}"


def grid(heads, rows):
    widths = [max(len(str(row[column])) for row in [heads, *rows]) for column in range(len(heads))]
    for row in [heads, *rows]:
        print("  ".join(f"{cell:<{width}}" if n == 0 else f"{cell:>{width}}" for n, (cell, width) in enumerate(zip(row, widths))))


def show(made):
    heads = ["", "requests", "a second", "written MiB", "read MiB", "writes %", "redundant %", "without zeros %"]
    rows = []
    for row in made["applications"]:
        rate = "-" if row["requests_per_second"] is None else f"{row['requests_per_second']:.1f}"
        sizes = [f"{row[name] / (1 << 20):.1f}" for name in ("written_bytes", "read_bytes")]
        shares = [percent(row[name]) for name in ("write_ratio", "redundancy", "redundancy_without_zeros")]
        rows.append([row["name"], row["reads"] + row["writes"], rate, *sizes, *shares])
    grid(heads, rows)
    print("\nPer cent of a row's blocks that the column wrote, too")
    numbers = [str(number + 1) for number in range(len(rows))]
    named = [f"{number} {row[0]}" for number, row in zip(numbers, rows)]
    grid(["", *numbers], [[name, *map(percent, cells)] for name, cells in zip(named, made["sharing"]["cells"])])
    means = [percent(made[name]["mean"]) for name in ("sharing", "sharing_without_zeros")]
    print(f"\nmean off the diagonal: {means[0]} %, without zeros {means[1]} %")
    found = made["found"]
    print(f"found by one index: {percent(found['by_one_index'])} %, by one for each application: {percent(found['by_one_each'])} %")
    print(f"{made['engine']}: {made['seconds']} s, at most {made['peak_bytes'] >> 20} MiB")


def size(typed):
    units = {"M": 20, "G": 30}
    if typed[-1:] not in units or not typed[:-1].isdigit() or int(typed[:-1]) == 0:
        raise argparse.ArgumentTypeError(f"'{typed}' is no size: give, say, 512M or 4G")
    return int(typed[:-1]) << units[typed[-1]]


def main():
    parser = argparse.ArgumentParser(prog="./dev sql")
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    parser.add_argument("--by", choices=("trace", "process", "stream", "file", "cgroup"), default="trace")
    parser.add_argument("--engine", choices=("datafusion", "spark"), default="datafusion")
    parser.add_argument("--memory", type=size, default="4G")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--dir", default=os.environ.get("TMPDIR", "/var/tmp"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    work = tempfile.mkdtemp(prefix="onefold-sql-", dir=options.dir)
    try:
        made = analyze(options, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    if options.json:
        print(json.dumps(made))
    else:
        show(made)


if __name__ == "__main__":
    try:
        main()
    except Refused as refused:
        print(f"dev: {refused}", file=sys.stderr)
        sys.exit(2)
