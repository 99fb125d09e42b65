#!/usr/bin/env bash
# Kill the server with -9 under ext4 and fio, again and again, and verify what was synced.
#
# usage: ./dev kill9 [--rounds N] [--seed N] [--seconds S] [--commit-mode MODE] [--out-of-line] [--dir DIRECTORY]
#
#   --rounds N    the number of rounds (default 100)
#   --seed N      the seed of the loads (default 1)
#   --seconds S   the longest load before a kill (default 3)
#   --commit-mode MODE  ordered, log, or any: each attach draws one (default)
#   --out-of-line an index that finds few duplicates, and `dedup --all` under way when the kill comes
#
# A volume is attached on FUSE and a loop device, its store on cutfs (app/examples/cutfs.rs), with ext4 on it; fio runs with fsyncs beside a
# writer that reports what it has synced. In turn, the server is killed, and its replacement must continue without an error; supervisor and
# server are killed; or the store begins to fail, and then both are killed, with or without a power cut. After each attach the journal of
# ext4 is replayed, e2fsck finds nothing else, every synced file is there, `check --data` finds nothing but garbage, and the recount returns
# exactly that.
#
# Between kills the volume changes: blocks of a file of noise rot, fail until they are written anew, and read right from then on; `set` and
# `grow` are carried out or cut off, offline and under the load; scrubs are interrupted, and find what is rotten. From 12 rounds on a run
# fails that lacks one of these. Needs root.
set -euo pipefail
source tools/dev/lib.sh
help_if_asked "$0" "$@"

need_blocks kill9
bash tools/dev/setup.sh build
need fio mkfs.ext4 losetup python3
build_onefold
cargo build --profile "$profile" --locked --quiet -p onefold --example cutfs
exec /usr/bin/python3 tools/kit/kill9.py --cutfs "$(binaries)/examples/cutfs" "$@"
