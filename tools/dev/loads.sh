#!/usr/bin/env bash
# Record fifteen application-like loads on this machine, each a trace with content.
#
# usage: ./dev loads [NAME...] [--out DIRECTORY] [--dir DIRECTORY] [--ship]
#        ./dev loads --list
#
# Each load is a script tools/loads/NAME.sh that runs a real program in a directory on ext4, with default options, on a loop device over a
# sparse file. `onefold trace record --disk` records the loop device until it is unmounted, with unkeyed fingerprints, so that the traces of
# several runs can be compared. The traces are left in target/loads/NAME (--out). A recording that lacks a request, or the content of more
# than one whole block in a thousand, has failed. With --ship each trace is also written to data/loads, as text that is shipped.
# Without a NAME all of them run, one after another, in some twenty minutes. --list shows them.
# Needs root, loop devices, a kernel with BPF and BTF, and a Debian mirror for programs that are missing. What the loads take as given, such
# as photos and packages, is made once in --dir/onefold-loads (default: below $TMPDIR or /var/tmp) and kept there.
set -euo pipefail
source tools/dev/lib.sh
help_if_asked "$0" "$@"

[[ " $* " == *" --list "* ]] && exec python3 tools/loads/record.py --list
need_root loads
bash tools/dev/setup.sh build >/dev/null
need python3 mkfs.ext4 losetup zstd
names=()
for word in "$@"; do [[ -f tools/loads/$word.sh ]] && names+=("$word"); done
[[ ${#names[@]} -gt 0 ]] || mapfile -t names < <(basename -s .sh tools/loads/*.sh | grep -vx load)
# A load names the packages that it needs.
mapfile -t missing < <(
    for name in "${names[@]}"; do sed -n 's/^# packages: //p' "tools/loads/$name.sh"; done | tr ' ' '\n' | sort -u |
        while read -r package; do
            dpkg-query --show --showformat '${Status}' "$package" 2>/dev/null | grep -q ' installed$' || echo "$package"
        done
)
[[ ${#missing[@]} -eq 0 ]] || apt_install "${missing[@]}"
build_onefold
build_laboratory
exec python3 tools/loads/record.py "$@"
