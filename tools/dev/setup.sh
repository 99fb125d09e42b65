#!/usr/bin/env bash
# Install what the other commands need and is missing, by apt.
#
# usage: ./dev setup [build] [test] [fresh]
#
# Without arguments it installs everything except what only `fresh` needs. Needs root only if something is missing.
# If the machine's Rust is older than 1.85 and its packages have none newer, it names rustup and stops.
set -euo pipefail
source tools/dev/lib.sh
help_if_asked "$0" "$@"

groups=("$@")
[[ ${#groups[@]} -gt 0 ]] || groups=(build test)
for group in "${groups[@]}"; do
    case "$group" in
    build) need_rust ;;
    test)
        need_rust
        need_lints
        need mkfs.ext4 mkfs.btrfs mkfs.xfs mkfs.f2fs losetup sfdisk fio nbdinfo python3-libnbd qemu-io shellcheck dpkg-shlibdeps rpmbuild
        ;;
    fresh) need debootstrap git ;;
    *) die "setup: unknown group '$group'; the groups are build, test and fresh" ;;
    esac
done
say "setup: ${groups[*]}: all there (rustc $(rust_version || echo none))"
