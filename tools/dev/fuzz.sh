#!/usr/bin/env bash
# Fuzz every decoder of the medium and every parser of a protocol.
#
# usage: ./dev fuzz [--seconds N] [--list] [TARGET]...
#
#   --seconds N   the time for each target (default 60)
#   TARGET        fuzz only these targets; default: all
#
# The targets are in fuzz/. Coverage is instrumented by flags that every compiler from 1.85 on has: no nightly and no cargo-fuzz is needed.
# The corpus grows in target/fuzz/corpus/; an input that fails is left in target/fuzz/artifacts/ and replayed by: target/fuzz/.../TARGET
# FILE. Once mended, it is kept in fuzz/found/TARGET/, with which each run begins.
set -euo pipefail
source tools/dev/lib.sh
help_if_asked "$0" "$@"

seconds=60
targets=()
while [[ $# -gt 0 ]]; do
    case "$1" in
    --seconds) seconds="${2:?--seconds needs a number}" && shift 2 ;;
    --list) basename -a -s .rs fuzz/fuzz_targets/*.rs && exit 0 ;;
    -*) misused "fuzz: unknown argument '$1'; see ./dev fuzz --help" ;;
    *) targets+=("$1") && shift ;;
    esac
done
[[ $seconds =~ ^[1-9][0-9]{0,8}$ ]] || misused "fuzz: --seconds needs a number above 0, not '$seconds'"
for target in "${targets[@]}"; do
    [[ -e fuzz/fuzz_targets/$target.rs ]] || misused "fuzz: unknown target '$target'; ./dev fuzz --list shows them"
done
[[ ${#targets[@]} -gt 0 ]] || mapfile -t targets < <(basename -a -s .rs fuzz/fuzz_targets/*.rs)
bash tools/dev/setup.sh build

work="$(target_dir)/fuzz"
host="$(rustc -vV | sed -n 's/^host: //p')"
coverage="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters"
coverage+=" -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 --cfg fuzzing"
# With --target, the flags do not reach build scripts.
RUSTFLAGS="$coverage" CARGO_TARGET_DIR="$work/build" \
    cargo build --release --quiet --manifest-path fuzz/Cargo.toml --target "$host"

failed=0
for target in "${targets[@]}"; do
    program="$work/build/$host/release/$target"
    mkdir -p "$work/corpus/$target" "$work/artifacts/$target"
    step "$target, $seconds s"
    log="$work/$target.log"
    corpus=("$work/corpus/$target")
    [[ ! -d fuzz/found/$target ]] || corpus+=("fuzz/found/$target")
    if "$program" "${corpus[@]}" -max_total_time="$seconds" -max_len=8192 -print_final_stats=1 \
        -artifact_prefix="$work/artifacts/$target/" >"$log" 2>&1; then
        grep -E '^stat::(number_of_executed_units|peak_rss_mb)|^#[0-9]+.*DONE' "$log" | tail -n 3
    else
        failed=1
        tail -n 30 "$log"
    fi
done
[[ $failed -eq 0 ]] || die "fuzz: a target failed; the input is in $work/artifacts/"
