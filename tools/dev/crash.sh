#!/usr/bin/env bash
# Explore crashes of the real engine over a simulated disk, with the set checker.
#
# usage: ./dev crash [--commit-mode MODE] [--minutes N] [--seed N] [--threads N] [--all] [--kind NAME] [--only RUN] [--lines N]
#
#   --commit-mode MODE  ordered (default), log, or any: each life draws one
#   --minutes N         how long (default 1)
#   --seed N            the seed of all runs (default 1)
#   --threads N         the number of threads (default: one for each processor)
#   --all               continue after the first violation, and distinguish them
#   --kind NAME         make runs of that kind alone
#   --only RUN          repeat one run of the seed, and show its history
#   --lines N           show the last N lines of that history (default 120)
#
# Prints its seed, the table of states (commit step, event, depth) and the number of distinct states; replays one run from the seed with
# --only. Ends with 1 if a promise was broken. docs/testing.md lists what it assumes and does not check.
set -euo pipefail
source tools/dev/lib.sh
help_if_asked "$0" "$@"

bash tools/dev/setup.sh build
exec cargo run --release --locked --quiet -p onefold-sim -- crash "$@"
