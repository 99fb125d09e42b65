#!/usr/bin/env bash
# What ./dev boot runs in its virtual machine, as root, at the end of each boot. Each line that it prints goes to the console.
set -eEuo pipefail
stage="$(cat /root/stage 2>/dev/null || echo install)"
place=/srv/photos
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
    # The recipe is the README's own, for a smaller disk.
    awk '/^## From nothing/ { here = 1 } here && /^```sh/ { on = 1; next } on && /^```/ { exit } on' /usr/share/doc/onefold/README.md |
        sed 's/--size 4G/--size 512M/' >/root/recipe
    grep -q 'onefold create .*512M' /root/recipe
    bash -eux /root/recipe >/root/recipe.log 2>&1 || { cat /root/recipe.log && false; }
    findmnt "$place" >/dev/null
    say "made a file system on $(grep -o '/dev/disk/by-id/onefold-[^ ]*' /etc/fstab), by the README's recipe"
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
    # Both processes at once: systemd brings the volume back, and what was mounted on it.
    echo before >"$place/kept" && sync
    device="$(findmnt -no SOURCE "$place")"
    systemctl show -P MainPID onefold@photos >/root/main
    mapfile -t processes < <(pgrep -x onefold | grep -vxF -f /root/main)
    [[ ${#processes[@]} -eq 2 ]]
    kill -STOP "${processes[@]}" && kill -KILL "${processes[@]}"
    for _ in $(seq 120); do
        sleep 1
        systemctl is-active --quiet onefold@photos && [[ -f $place/kept ]] && echo after >"$place/written" 2>/dev/null &&
            sync -f "$place" && break
    done
    [[ $(cat "$place/kept") == before && $(cat "$place/written") == after ]]
    say "both processes killed: back at $(findmnt -no SOURCE "$place"), and was at $device"
    # Stopping the unit takes the file system with it, and does not wait for a limit.
    begun=$SECONDS
    systemctl stop onefold@photos
    none "$(findmnt "$place" || true)"
    none "$(onefold list | grep photos || true)"
    onefold check photos | grep -q 'closed in order *yes'
    say "stopped in $((SECONDS - begun)) s, closed in order"
    # `mount` starts no units; systemd's own does.
    systemctl start "$(systemd-escape -p --suffix=mount "$place")"
    findmnt "$place" >/dev/null
    # A file system that the unit does not know of, and that is in use: the volume is served on.
    mkdir -p /mnt/by-hand
    mount "$(findmnt -no SOURCE "$place")" /mnt/by-hand
    tail -f /mnt/by-hand/kept >/dev/null &
    systemctl stop onefold@photos || true
    [[ $(cat /mnt/by-hand/kept) == before ]]
    say "stopped while in use: served on after $((SECONDS - begun)) s"
    kill $!
    umount /mnt/by-hand
    systemctl start "$(systemd-escape -p --suffix=mount "$place")"
    onefold status photos >/dev/null
    # Server and client in one control group of version 2, whose limit they reach, without the capability that version 1 needs.
    group=/sys/fs/cgroup/trial
    echo +memory >/sys/fs/cgroup/cgroup.subtree_control
    mkdir "$group"
    echo 150M >"$group/memory.max"
    within() {
        bash -c "echo \$\$ >$group/cgroup.procs"' && exec setpriv --bounding-set=-sys_resource --inh-caps=-sys_resource "$@"' within "$@"
    }
    onefold create --size 768M /srv/limited >/dev/null
    device="$(within onefold attach /srv/limited)"
    mkfs.ext4 -q -E nodiscard "$device"
    mkdir /mnt/limited
    mount "$device" /mnt/limited
    begun=$SECONDS
    within timeout 400 cp -a /usr/lib /mnt/limited/
    within timeout 200 sync -f /mnt/limited
    say "copied $(du -sh /mnt/limited/lib | cut -f 1) in $((SECONDS - begun)) s within 150M: $(tr '\n' ' ' <"$group/memory.events")"
    grep -q '^oom_kill 0' "$group/memory.events"
    none "$(grep -x 'max 0' "$group/memory.events" || true)"
    within timeout 400 diff -r --no-dereference /usr/lib /mnt/limited/lib
    umount /mnt/limited
    onefold detach /srv/limited
    rm /srv/limited
    rmdir "$group"
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
