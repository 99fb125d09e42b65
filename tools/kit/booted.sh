#!/usr/bin/env bash
# What ./dev boot runs in its virtual machine, as root, at the end of each boot. Each line that it prints goes to the console.
set -eEuo pipefail
stage="$(cat /root/stage 2>/dev/null || echo install)"
store=/srv/photos.onefold place=/srv/photos
say() { echo "boot: $*"; }
# Fails, and shows the text, unless it is empty. A command behind `!` would end nothing.
none() { [[ -z $1 ]] || { echo "$1" && false; }; }
failed() {
    say "FAILED: $stage, line $1: $2"
    systemctl --no-pager --failed
    journalctl -b --no-pager | grep -iE 'onefold|cycle|fail|local-fs' | tail -n 60
}
trap 'failed "$LINENO" "$BASH_COMMAND"' ERR
trap 'sync; systemctl poweroff' EXIT

case "$stage" in
install)
    dpkg -i /root/older.deb >/dev/null
    say "installed: $(onefold version | head -n 1)"
    onefold create "$store" --size 512M --label photos >/dev/null
    mkdir -p /etc/onefold "$place"
    printf 'volume = "%s"\nmemory = "16M"\n' "$store" >/etc/onefold/photos.toml
    systemctl enable --quiet --now onefold@photos
    udevadm settle
    uuid="$(onefold probe --udev "$store" | sed -n 's/^ID_FS_UUID=//p')"
    mkfs.ext4 -q "/dev/disk/by-id/onefold-$uuid"
    echo "/dev/disk/by-id/onefold-$uuid  $place  ext4  x-systemd.requires=onefold@photos.service  0 2" >>/etc/fstab
    say "made a file system on /dev/disk/by-id/onefold-$uuid"
    echo upgrade >/root/stage
    ;;
upgrade)
    systemctl is-active --quiet onefold@photos
    findmnt "$place" >/dev/null
    systemctl is-active --quiet local-fs.target
    say "attached at boot, and mounted by fstab: $(findmnt -no SOURCE,TARGET "$place")"
    fio --name=load --directory="$place" --rw=randwrite --bs=4k --size=48M --io_size=96M --ioengine=psync --fsync=16 --verify=crc32c \
        --do_verify=1 --rate_iops=400 --output=/root/fio.txt &
    fio=$!
    sleep 10
    before="$(onefold status photos --json | sed -n 's/^  "pid": \([0-9]*\),*/\1/p')"
    dpkg -i /root/newer.deb >/dev/null
    kill -0 "$fio" || { cat /root/fio.txt && false; }
    after="$(onefold status photos --json | sed -n 's/^  "pid": \([0-9]*\),*/\1/p')"
    [[ -n $before && -n $after && $after != "$before" && $(readlink "/proc/$after/exe") == /usr/bin/onefold ]]
    say "upgraded under fio: the server is $after, and was $before"
    wait "$fio" || { cat /root/fio.txt && false; }
    grep -q 'err= 0' /root/fio.txt
    none "$(dmesg | grep -iE 'I/O error|ext4.*error' || true)"
    say "fio wrote and verified without an error"
    onefold stats photos | head -n 3
    umount "$place"
    sed -i '/onefold/d' /etc/fstab
    systemctl daemon-reload
    rm /etc/onefold/photos.toml
    dpkg --purge onefold >/dev/null
    none "$(losetup -a)"
    none "$(pgrep -a onefold || true)"
    left="$(find / -xdev -path /srv -prune -o -path /root -prune -o -path /proc -prune -o -path /sys -prune -o -name '*onefold*' -print)"
    # The link by which the unit was enabled is of the administrator's making.
    none "$(grep -v '/etc/systemd/system/local-fs.target.wants/' <<<"$left" || true)"
    say "removed without a trace"
    say "PASSED"
    ;;
esac
