#!/usr/bin/env bash
# What ./dev f2fs runs in its virtual machine, as its init. Each line that it prints goes to the console: a `row` has the duplicates in
# per cent, the setup, the units of 4 KiB and the flushes that reached the disk, the blocks written, those linked, and a sum of the data.
set -eEuo pipefail
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mib="$(cat /root/mib)"
disk=/dev/vdb place=/mnt threads=3
setup='' percent=''
say() { echo "f2fs: $*"; }
trap 'say "FAILED: $percent % $setup, line $LINENO: $BASH_COMMAND"' ERR
# The machine ends where it would boot again.
trap 'sync; echo b >/proc/sysrq-trigger; sleep 600' EXIT

# Prints the sectors that were written to the disk so far, and its flushes.
counts() {
    local sectors flushes
    read -r _ _ _ _ _ _ sectors _ _ _ _ _ _ _ _ flushes _ <"/sys/block/${disk#/dev/}/stat"
    echo "$sectors $flushes"
}

attach() { device="$(onefold attach "${options[@]}" "$disk")"; }

mounted() {
    mount -t f2fs "$device" "$place"
    [[ $(findmnt -no FSTYPE "$place") == f2fs && $(findmnt -no SOURCE "$place") == "$device" ]]
}

sum() { (cd "$place" && find . -type f | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -c 1-16); }

# Formatting is not counted, and a detach is: what a volume still owes is written then.
run() {
    local blocks=$((mib * 256 / threads)) linked=0 before after written
    blkdiscard -f -z "$disk"
    [[ $setup == passthrough ]] || onefold create "$disk" >/dev/null
    attach
    mkfs.f2fs -q -f -t 0 "$device" >/root/mkfs.log
    onefold detach "$disk"
    read -r -a before < <(counts)
    attach
    mounted
    fio --name=job --directory="$place" --rw=randwrite --bs=4k --size="$((blocks * 4))k" --numjobs="$threads" --thread --ioengine=psync \
        --refill_buffers --buffer_compress_percentage=0 --dedupe_percentage="$percent" --randseed=1 --end_fsync=1 \
        --eta=never --output=/root/fio.txt ||
        { cat /root/fio.txt && false; }
    written="$(sum)"
    umount "$place"
    if [[ $setup == volume ]]; then
        linked="$(onefold stats "$disk" --json | sed -n 's/^    "duplicates": \([0-9]*\),*$/\1/p')"
        [[ -n $linked ]]
    fi
    onefold detach "$disk"
    read -r -a after < <(counts)
    # What is read now comes from the disk.
    echo 3 >/proc/sys/vm/drop_caches
    attach
    mounted
    [[ $(sum) == "$written" ]]
    umount "$place"
    onefold detach "$disk"
    [[ $setup == passthrough ]] || onefold check "$disk" >/root/check.log || { cat /root/check.log && false; }
    say "row $percent $setup $(((after[0] - before[0]) / 8)) $((after[1] - before[1])) $((blocks * threads)) $linked $written"
}

modprobe f2fs
modprobe fuse
modprobe loop
[[ -c /dev/fuse && -b $disk ]]
say "Linux $(uname -r), $(fio --version), $(onefold version | head -n 1 | tr -s " ")"
for percent in 0 25 50 75; do
    for setup in passthrough volume; do
        options=()
        [[ $setup == volume ]] || options=(--passthrough)
        run
    done
done
say "COUNTED"
