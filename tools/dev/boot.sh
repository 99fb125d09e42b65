#!/usr/bin/env bash
# Try the package in a virtual machine: attached at boot, mounted by fstab, upgraded under load, removed.
#
# usage: ./dev boot [--binary FILE] [--minutes N] [--keep]
#
#   --binary FILE   package this program instead of building one
#   --minutes N     the most time for each of the two boots (default 20)
#   --keep          keep the machine's disk
#
# The machine is a new Debian 13 in QEMU, which emulates its processors. It installs the .deb, makes a volume with a file system
# by the recipe of the package's README, and boots again. Then the volume has to be attached and mounted; a newer package is installed
# while fio writes and verifies; both processes are killed, and systemd has to bring volume and file system back; the unit is stopped, also
# while a file system is in use; server and client work in one control group with a memory limit; the package is purged, and nothing may be
# left. Needs root, for debootstrap.
set -euo pipefail
source tools/dev/lib.sh
help_if_asked "$0" "$@"

binary=() minutes=20 keep=
while [[ $# -gt 0 ]]; do
    case "$1" in
    --binary) binary=(--binary "${2:?--binary needs a file}") && shift 2 ;;
    --minutes) minutes="${2:?--minutes needs a number}" && shift 2 ;;
    --keep) keep=yes && shift ;;
    *) misused "boot: unknown argument '$1'; see ./dev boot --help" ;;
    esac
done
[[ $minutes =~ ^[1-9][0-9]*$ ]] || misused "boot: --minutes $minutes: give a number above 0"
need_root "boot"
need debootstrap qemu-system-x86_64 mkfs.ext4 dpkg-shlibdeps
[[ $(dpkg --print-architecture) == amd64 ]] || die "boot: the machine is one for amd64"

make_machine_folder boot "$keep"

step "Package"
./dev package "${binary[@]}" --out "$work" deb >/dev/null
older="$(ls "$work"/*.deb)"
# The same program under a higher version.
dpkg-deb -R "$older" "$work/newer"
sed -i 's/^Version: .*/&.newer/' "$work/newer/DEBIAN/control"
dpkg-deb --root-owner-group --build "$work/newer" "$work/newer.deb" >/dev/null

step "Debian 13"
root="$work/root"
included=systemd,systemd-sysv,udev,linux-image-cloud-amd64,initramfs-tools,e2fsprogs,fio,kmod,procps
make_debian boot "$root" "$included"
cp "$older" "$root/root/older.deb"
cp "$work/newer.deb" "$root/root/newer.deb"
install -m 755 tools/kit/booted.sh "$root/root/booted"
echo 'LABEL=root / ext4 defaults 0 1' >"$root/etc/fstab"
echo trial >"$root/etc/hostname"
cat >"$root/etc/systemd/system/booted.service" <<'UNIT'
[Unit]
After=multi-user.target
[Service]
ExecStart=/root/booted
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
[Install]
WantedBy=graphical.target
UNIT
mkdir -p "$root/etc/systemd/system/graphical.target.wants"
# The console is for what the trial says.
ln -s /dev/null "$root/etc/systemd/system/serial-getty@ttyS0.service"
ln -s ../booted.service "$root/etc/systemd/system/graphical.target.wants/booted.service"
cp "$root"/boot/vmlinuz-* "$work/kernel"
cp "$root"/boot/initrd.img-* "$work/initrd"
mkfs.ext4 -q -L root -d "$root" "$work/disk" 4G
rm -rf --one-file-system "$root"

# Boots the machine, and shows what the trial says. A panic ends the machine at once.
boot() {
    timeout "$((minutes * 60))" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 1024 \
        -nographic -no-reboot -nic none \
        -drive "file=$work/disk,if=virtio,format=raw,cache=unsafe" -kernel "$work/kernel" -initrd "$work/initrd" \
        -append 'root=LABEL=root rw console=ttyS0 quiet loglevel=3 panic=-1 systemd.show_status=0' </dev/null >"$work/console" 2>&1 ||
        { tail -n 40 "$work/console" && die "boot: the machine did not end in $minutes minutes"; }
    tr -d '\r' <"$work/console" | grep -ao 'boot: .*' || true
}

step "The first boot"
boot
# An emulated kernel may panic in its first second. Nothing of Onefold is installed by then.
if grep -qa 'Kernel panic' "$work/console" && ! grep -qa 'boot: ' "$work/console"; then
    say "the machine's kernel panicked; once more"
    boot
fi
grep -qa 'boot: made a file system' "$work/console" || { tail -n 80 "$work/console" && die "boot: the first boot failed"; }

step "The second boot"
boot
grep -qa 'boot: PASSED' "$work/console" || { tail -n 80 "$work/console" && die "boot: the second boot failed"; }
