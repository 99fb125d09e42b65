#!/usr/bin/env bash
# Count what SmartDedup's load writes on F2FS, in a virtual machine: on a volume, and on the bare store.
#
# usage: ./dev f2fs [--binary FILE] [--mib N] [--minutes N] [--keep]
#
#   --binary FILE   try this program instead of building one
#   --mib N         the data that fio writes in a run (default 64)
#   --minutes N     the most time for a boot (default 20)
#   --keep          keep the machine's disks
#
# The machine is a new Debian 13 in QEMU, which emulates its processor, so counts are measured and times are not. By three threads fio
# writes random blocks, with 0, 25, 50 and 75 % duplicates, on F2FS on a volume and on the same store without one (`--passthrough`). The
# table has what reached the store, a disk of its own, from mkfs to the detach. A run fails where F2FS was not what was mounted, where the
# data read back from the disk is not what was written, and where fewer than half of fio's duplicates were found. Needs root, for
# debootstrap.
set -euo pipefail
source tools/dev/lib.sh
help_if_asked "$0" "$@"

binary='' mib=64 minutes=20 keep=
while [[ $# -gt 0 ]]; do
    case "$1" in
    --binary) binary="${2:?--binary needs a file}" && shift 2 ;;
    --mib) mib="${2:?--mib needs a number}" && shift 2 ;;
    --minutes) minutes="${2:?--minutes needs a number}" && shift 2 ;;
    --keep) keep=yes && shift ;;
    *) misused "f2fs: unknown argument '$1'; see ./dev f2fs --help" ;;
    esac
done
[[ $mib =~ ^[1-9][0-9]{0,3}$ ]] || misused "f2fs: --mib $mib: give a number from 1 to 9999"
[[ $minutes =~ ^[1-9][0-9]*$ ]] || misused "f2fs: --minutes $minutes: give a number above 0"
[[ -z $binary || -x $binary ]] || misused "f2fs: --binary $binary: that is no program"
need_root "f2fs"
need debootstrap qemu-system-x86_64 mkfs.ext4
[[ $(dpkg --print-architecture) == amd64 ]] || die "f2fs: the machine is one for amd64"
if [[ -z $binary ]]; then
    need_rust
    build_onefold
    binary="$ONEFOLD"
fi

make_machine_folder f2fs "$keep"

step "Debian 13"
root="$work/root"
# The kernel for clouds has no F2FS.
included=linux-image-amd64,initramfs-tools,f2fs-tools,fio,kmod
make_debian f2fs "$root" "$included"
install -m 755 "$binary" "$root/usr/bin/onefold"
install -m 755 tools/kit/f2fs.sh "$root/root/f2fs"
echo "$mib" >"$root/root/mib"
cp "$root"/boot/vmlinuz-* "$work/kernel"
cp "$root"/boot/initrd.img-* "$work/initrd"
mkfs.ext4 -q -d "$root" "$work/disk" 4G >/dev/null
rm -rf --one-file-system "$root"
truncate -s "$((512 + 4 * mib))M" "$work/store"

# Boots the machine, and shows what it says. A panic ends the machine at once.
boot() {
    timeout "$((minutes * 60))" qemu-system-x86_64 -accel tcg -cpu max -smp 1 -m 1024 -nographic -no-reboot -nic none \
        -drive "file=$work/disk,if=virtio,format=raw,cache=unsafe" -drive "file=$work/store,if=virtio,format=raw,cache=unsafe" \
        -kernel "$work/kernel" -initrd "$work/initrd" \
        -append 'root=/dev/vda rw init=/root/f2fs console=ttyS0 quiet loglevel=3 panic=-1' </dev/null >"$work/console" 2>&1 ||
        { tail -n 40 "$work/console" && die "f2fs: the machine did not end in $minutes minutes"; }
    tr -d '\r' <"$work/console" | grep -ao 'f2fs: .*' >"$work/said" || true
}

step "fio on F2FS"
boot
# An emulated kernel may panic in its first second. Nothing of Onefold runs by then.
if grep -qa 'Kernel panic' "$work/console" && [[ ! -s $work/said ]]; then
    say "the machine's kernel panicked; once more"
    boot
fi
grep -v '^f2fs: row ' "$work/said" || true
say ""
awk -v mib="$mib" '
    $2 != "row" { next }
    { units[$4] = $5; flushes[$4] = $6; sums[$4] = $9 }
    $4 == "passthrough" { next }
    !headed++ {
        printf "%-12s %18s %13s %7s %20s %15s %8s\n", "duplicates", "units passthrough", "units volume", "ratio", "flushes passthrough",
            "flushes volume", "linked"
    }
    {
        printf "%-12s %18d %13d %7.3f %20d %15d %6.1f %%\n", $3 " %", units["passthrough"], $5, $5 / units["passthrough"],
            flushes["passthrough"], $6, 100 * $8 / $7
        if ($8 < $7 * $3 / 100 / 2) { print "f2fs: of " $3 " % duplicates fewer than half were found"; failed = 1 }
        if (sums["volume"] != sums["passthrough"]) { print "f2fs: with " $3 " % duplicates the setups differ in their data"; failed = 1 }
        rows++
    }
    END { exit failed || rows != 4 }' "$work/said" || { tail -n 40 "$work/console" && die "f2fs: a check failed"; }
grep -q '^f2fs: COUNTED' "$work/said" || { tail -n 40 "$work/console" && die "f2fs: the runs did not end in order"; }
