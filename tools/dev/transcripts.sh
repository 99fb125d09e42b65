#!/usr/bin/env bash
# Hold what the engine asks for and answers, action by action, against what is recorded in sim/transcripts.tsv.
#
# usage: ./dev transcripts [--record] [--sample N] [--jobs N] [NAME]...
#
#   --record     write the table anew: where a change is meant to change what the engine does
#   --sample N   every N-th transcript only
#   --jobs N     at once (default 2)
#   NAME         those whose names begin with it, such as life/log or replay/05_vehicle; default: all
#
# Runs the scenes of the count benches, the cases of Figure 1, the shipped traces by three schemes, weak and strong, and 300 lives of the
# crash explorer in each mode. Ends with 1 where a transcript differs.
set -euo pipefail
source tools/dev/lib.sh
help_if_asked "$0" "$@"

bash tools/dev/setup.sh build
exec cargo run --release --locked --quiet -p onefold-sim -- transcripts "$@"
