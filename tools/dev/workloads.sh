#!/usr/bin/env bash
# Record real programs on ext4 on a traced device, and compare them with the shipped traces.
#
# usage: ./dev workloads list
#        ./dev workloads record [NAME...] [--dir DIRECTORY] [--out DIRECTORY] [--ship]
#
# Each program runs on ext4 on a file that `onefold attach --passthrough` serves and `onefold trace record` records: mkfs, setup, run,
# umount, each a phase. The traces are left in target/workloads/NAME (--out), with summary.json, which sets their duplication beside that of
# the shipped trace of the same program. Needs root, fio, debootstrap and e2fsprogs, up to 10 GiB below --dir (default: $TMPDIR or /var/tmp)
# and, for what installs packages, a Debian mirror. `list` shows what else some of them need. `./dev bench papers` replays the traces in
# target/workloads. With --ship the text of the trace, and its totals, are also written to data/traces; a recording that lacks a request,
# or the content of a block, has failed.
set -euo pipefail
source tools/dev/lib.sh
help_if_asked "$0" "$@"

case "${1:-}" in
list) exec python3 tools/workloads/workloads.py "$@" ;;
record) ;;
*) misused "workloads: give list or record; see ./dev workloads --help" ;;
esac
need_blocks workloads
bash tools/dev/setup.sh build >/dev/null
need fio python3 debootstrap mkfs.ext4
build_onefold
build_laboratory
exec python3 tools/workloads/workloads.py "$@"
