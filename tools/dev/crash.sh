#!/usr/bin/env bash
# Explore crashes of the real engine over a simulated disk, with the set checker.
#
# usage: ./dev crash [--minutes N] [--seed N] [--threads N] [--only RUN]
#
# Prints its seed, the table of states (commit step, event, depth) and the number of distinct states; replays one run from the seed with
# --only. Ends with 1 where a promise was broken. What it assumes and does not check: docs/testing.md.
set -euo pipefail
source tools/dev/lib.sh
help_if_asked "$0" "$@"

bash tools/dev/setup.sh build
exec cargo run --release --locked --quiet -p onefold-sim -- crash "$@"
