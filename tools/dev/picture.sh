#!/usr/bin/env bash
# Measure what Onefold saves on real trees and programs, and draw the picture in README.
#
# usage: ./dev picture [NAME...] [--dir DIRECTORY]
#        ./dev picture --draw
#        ./dev picture --report [DIRECTORY]
#
# Each load runs on ext4 three times: on a bare disk, and on a volume with default settings over FUSE and a loop device whose store is
# the disk, and whose store is a file on ext4 on the disk. The kernel counts what reaches the disk, from the mount to the unmount and the
# detach. The figures go to docs/savings.tsv, and docs/savings.svg is
# drawn of them; --draw only draws. With NAMEs only these loads are measured, and the figures of the others stay. Needs root, FUSE, loop
# devices, debootstrap, e2fsprogs, up to 24 GiB below --dir (default: $TMPDIR or /var/tmp), a Debian mirror and half an hour.
#
# --report makes docs/example-report of a report that ./dev bench papers has left in target/report, or in DIRECTORY, and puts its count of
# rows into README.md.
set -euo pipefail
source tools/dev/lib.sh
help_if_asked "$0" "$@"

if [[ $* == --draw ]]; then
    exec python3 tools/picture/draw.py
fi
if [[ ${1:-} == --report ]]; then
    [[ $# -le 2 ]] || misused "picture: --report takes one directory"
    report="${2:-$(target_dir)/report}"
    [[ -f $report/results.json ]] || misused "picture: $report has no report; ./dev bench papers makes one, in $(target_dir)/report"
    need zstd
    exec python3 tools/picture/report.py "$report"
fi
# Before anything is built: a build takes minutes.
python3 tools/picture/picture.py --check "$@"
need_blocks picture
bash tools/dev/setup.sh build >/dev/null
need fio python3 debootstrap mkfs.ext4
build_onefold
python3 tools/picture/picture.py "$@"
exec python3 tools/picture/draw.py
