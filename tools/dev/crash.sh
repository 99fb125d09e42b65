#!/usr/bin/env bash
# Explore crashes of the real engine over a simulated disk, with the set checker.
#
# usage: ./dev crash [--commit-mode MODE] [--minutes N] [--seed N] [--threads N] [--all] [--only RUN] [--lines N]
#
#   --commit-mode MODE  ordered (default), log, or any: each life draws one
#   --minutes N         how long (default 1)
#   --seed N            of all runs (default 1)
#   --threads N         at once (default: as many as there are processors)
#   --all               go on behind the first violation, and tell them apart
#   --only RUN          one run of the seed again, with its history
#   --lines N           of that history, the last N (default 120)
#
# Prints its seed, the table of states (commit step, event, depth) and the number of distinct states; replays one run from the seed with
# --only. Ends with 1 where a promise was broken. What it assumes and does not check: docs/testing.md.
set -euo pipefail
source tools/dev/lib.sh
help_if_asked "$0" "$@"

bash tools/dev/setup.sh build
exec cargo run --release --locked --quiet -p onefold-sim -- crash "$@"
