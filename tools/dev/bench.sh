#!/usr/bin/env bash
# Measure a figure of docs/plan.md, and compare it with its target.
#
# usage: ./dev bench --list
#        ./dev bench NAME... [--json] [--record] [--seed N] [--dir DIRECTORY]
#        ./dev bench --all [--json] [--record]
#        ./dev bench papers [--out DIRECTORY] [--trace NAME]... [--scheme NAME]... [--recorded DIRECTORY] [--made-writes N] [--jobs N]
#                           [--hint-writes N] [--loads DIRECTORY] [--stored FILE [--no-replay]] [--json] [--record]
#
# Prints {name, value, unit, target, holds} with the command, the seed and the commit, and ends with 1 if a target is missed.
# --record appends each figure to docs/figures.tsv, with the date, the commit and the processor (docs/testing.md). It refuses a work tree
# whose code differs from the last commit. Without it nothing in the tree changes. Of `papers` it records each target, and prints them as
# --json does.
# Benchmarks marked `counts` and `steps` run the engine in the simulator, `flash` and `flashed` its model of flash; `live`, `log`, `reopen`,
# `space`, `record` and `pace` run the built binary on this machine, need fio, libnbd and some GiB of disk (--dir; default: below $TMPDIR
# or /var/tmp). `replay` and `workloads` need root, FUSE and loop devices besides.
# `smart`, `tight` and `scrub` need root, FUSE and loop devices; smartdedup-fio, -mixes and -dedisbench leave target/smartdedup.json for
# the report; scrub-throughput reads ONEFOLD_BENCH_SCRUB_PAIRS (5).
# They read ONEFOLD_BENCH_SMART_MIB (2048) and ONEFOLD_BENCH_SLOWED_MIB (128), the data of a run.
# `below` needs root, FUSE, loop devices, xfsprogs, btrfs-progs and 16 GiB, and takes three quarters of an hour;
# ONEFOLD_BENCH_BELOW_HOSTS (ext4,xfs,btrfs,tmpfs), _STORES (file,sparse,thin), _LOADS (wal,rollback,log,rows,copy) and _PHASES
# (create,fill,trim,restart) measure less than all.
# `load_costs` needs root, FUSE and loop devices, and leaves target/load-costs.json for the report; ONEFOLD_BENCH_COSTS chooses among the
# loads of data/loads, by names with commas.
# `nodedup`, `protected`, `observed`, `prefetch`, `twice`, `short`, `marked` and `filetypes` measure hints; they need root, FUSE, loop
# devices and 8 GiB.
# `protected` needs e2fsprogs, xfsprogs and btrfs-progs besides, `observed` bpftool and git, `twice` and `short` MariaDB and PostgreSQL,
# without which they leave out what needs them; `short` takes ONEFOLD_BENCH_SHORT, _SHORT_PAIRS, _SHORT_PERCENT and _SHORT_ACTS.
# `hints-table-1` takes each file system of the kernel whose mkfs is there; `file-types` copies ONEFOLD_BENCH_TYPES_TREE (/usr/share). Both
# leave target/hints.json for the report.
# ONEFOLD_BENCH_NODEDUP_MIB (4096), _NODEDUP_PAIRS (3), _OBSERVED_BIOS (1000000), _OBSERVED_ROUNDS (100), _PREFETCH_MIB (1024),
# _PREFETCH_COPIES (2), _PREFETCH_MEMORY (64M), _TABLE_1_FILES (10000) and _TABLE_1_SECONDS (60) give their sizes;
# ONEFOLD_BENCH_PROTECTED, _TWICE and _TABLE_1 choose among their cases.
# `fronts` needs root, FUSE and loop devices, `killed` FUSE; ONEFOLD_BENCH_TREE is the tree that they copy (/usr/share and /usr/share/doc).
# `fleet` installs DataFusion below the target folder, and needs 10 GiB; it reads ONEFOLD_BENCH_FLEET_RECORDS (100000000) and
# ONEFOLD_BENCH_FLEET_MEMORY (4G).
# `parts` takes the traces of ONEFOLD_BENCH_LOADS (data/loads) besides, if there are any.
# live-workloads reads ONEFOLD_BENCH_PROGRAMS (sqlite,update,install,browsing), ONEFOLD_BENCH_RUNS (1) and ONEFOLD_BENCH_MODEL (tablet).
# `papers` is a report of many figures and stands alone: it replays every recorded trace on every scheme (within 40 minutes on two cores, or
# that is a missed target) and the loads of data/loads with flash below, and writes index.html, smartdedup.html, hints.html,
# app-dedupe.html, results.csv, hints.csv, app-dedupe.csv and results.json to target/report (docs/evaluating.md). --all leaves it out. With
# --stored it takes the results of an earlier report (its results.json), and replays only what they lack; with --no-replay, too, it only
# writes the pages anew.
set -euo pipefail
source tools/dev/lib.sh
help_if_asked "$0" "$@"

if [[ " $* " == *" --list "* ]]; then
    exec python3 tools/bench/bench.py --list
fi
[[ $# -gt 0 ]] || misused "bench: give the name of a benchmark; ./dev bench --list shows the names"
words=() recorded=
for word in "$@"; do
    if [[ $word == --record ]]; then recorded=--record; else words+=("$word"); fi
done
# Before anything is built: a build takes minutes.
[[ -z $recorded ]] || python3 tools/bench/figures.py ready
if [[ ${words[0]:-} == papers ]]; then
    bash tools/dev/setup.sh build >/dev/null
    build_laboratory
    # What was measured live, if it was.
    live="$(target_dir)/smartdedup.json"
    [[ -f $live ]] && live=(--live "$live") || live=()
    hints="$(target_dir)/hints.json"
    [[ -f $hints ]] && live+=(--live-hints "$hints")
    costs="$(target_dir)/load-costs.json"
    [[ -f $costs ]] && live+=(--live-loads "$costs")
    run_times="$(target_dir)/live-figures.json"
    [[ -f $run_times ]] && live+=(--live-figures "$run_times")
    revision="$(git -c safe.directory="*" rev-parse --short=8 HEAD)"
    report=("$ONEFOLD_LAB" report --out "$(target_dir)/report" --revision "$revision" "${live[@]}" "${words[@]:1}")
    [[ -n $recorded ]] || exec "${report[@]}"
    "${report[@]}" --json | python3 tools/bench/figures.py record "./dev bench ${words[*]}"
    exit
fi
bash tools/dev/setup.sh build >/dev/null
need fio python3-libnbd python3
[[ " ${words[*]} " != *" below-host "* && " ${words[*]} " != *" --all "* ]] || need mkfs.ext4 mkfs.xfs mkfs.btrfs
[[ " ${words[*]} " != *" protected "* && " ${words[*]} " != *" --all "* ]] ||
    need mkfs.ext4 dumpe2fs mkfs.xfs xfs_repair mkfs.btrfs btrfs-map-logical
[[ " ${words[*]} " != *" observed-"* && " ${words[*]} " != *" --all "* ]] || need bpftool filefrag git
[[ " ${words[*]} " != *" content-"* && " ${words[*]} " != *" --all "* ]] || need bpftool mkfs.ext4 mkfs.xfs mkfs.btrfs sfdisk
[[ " ${words[*]} " != *" analyze-fleet "* && " ${words[*]} " != *" --all "* ]] || bash tools/dev/sql.sh --setup
build_onefold
build_laboratory
cargo build --release --locked --quiet -p onefold-sim
ONEFOLD_SIM="$(target_dir)/release/onefold-sim"
cargo build --release --locked --quiet -p onefold --example cutfs
ONEFOLD_CUTFS="$(target_dir)/release/examples/cutfs"
export ONEFOLD_SIM ONEFOLD_CUTFS
exec /usr/bin/python3 tools/bench/bench.py "${words[@]}" ${recorded:+--record}
