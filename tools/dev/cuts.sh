#!/usr/bin/env bash
# Cut the power under the built binary, again and again, and verify over NBD what was flushed.
#
# usage: ./dev cuts [--rounds N] [--seed N] [--seconds S] [--commit-mode MODE] [--out-of-line] [--dir DIRECTORY]
#
#   --rounds N    the number of rounds (default 500)
#   --seed N      the seed of the loads and the power cuts (default 1)
#   --seconds S   the longest load of a round (default 0.6)
#   --commit-mode MODE  ordered, log, or any: each attach draws one (default)
#   --out-of-line an index that finds few duplicates, and `dedup --all` under way when the disaster comes
#
# The backing file lies on cutfs (app/examples/cutfs.rs), which keeps unflushed sectors apart and drops a seeded subset of them. Each round
# has a verified load, a power cut or a kill (sometimes again during recovery), `check --data`, a restart, and a read of every block. In
# each third round the store begins to fail in between: writes, flushes or both, once or permanently.
#
# Between disasters the volume changes: blocks of noise rot on the disk, fail until they are written anew, and read right from then on;
# `set` and `grow` are carried out or cut off, offline and under the load; scrubs are interrupted, mend a page, and find what is rotten.
# From 30 rounds on a run fails that lacks one of these. Needs root (FUSE).
set -euo pipefail
source tools/dev/lib.sh
help_if_asked "$0" "$@"

need_blocks cuts
bash tools/dev/setup.sh build
need python3-libnbd
build_onefold
cargo build --profile "$profile" --locked --quiet -p onefold --example cutfs
exec /usr/bin/python3 tools/kit/cuts.py --cutfs "$(binaries)/examples/cutfs" "$@"
