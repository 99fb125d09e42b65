#!/usr/bin/env bash
# Show what Onefold does: two copies of a real tree, a kill in the third, every synced file verified.
#
# usage: ./dev demo [--keep] [--dir DIRECTORY]
#
#   --dir DIRECTORY   the directory of the volume's file (default: a new directory below $TMPDIR or /var/tmp); needs 4 GiB
#   --keep            keep that directory
#
# As root: FUSE and a loop device with ext4 on it. Ends with 0 only if every file that was synced is there and `check --data` is clean.
set -euo pipefail
source tools/dev/lib.sh
help_if_asked "$0" "$@"

MIB_MIN=500
FILES_MIN=10000

keep=
parent="${TMPDIR:-/var/tmp}"
while [[ $# -gt 0 ]]; do
    case "$1" in
    --keep) keep=yes && shift ;;
    --dir) parent="${2:?--dir needs a directory}" && shift 2 ;;
    *) misused "demo: unknown argument '$1'; see ./dev demo --help" ;;
    esac
done

if reason="$(blocks_unavailable)"; then
    die "demo: needs root, /dev/fuse and a free loop device, and there is: $reason. Without root a volume is served over NBD" \
        "(docs/operating.md); the demo wants a file system on it. Try: sudo ./dev demo"
fi
bash tools/dev/setup.sh build
need mkfs.ext4 losetup python3
step "Build"
build_onefold
began=$SECONDS

work="$(mktemp -d "$parent/onefold-demo.XXXXXX")"
volume="$work/volume.onefold"
mount="$work/mnt"
mkdir "$mount"
copier=

cleanup() {
    local code=$?
    trap - EXIT INT TERM
    set +e
    [[ -n $copier ]] && kill "$copier" 2>/dev/null && wait "$copier" 2>/dev/null
    mountpoint -q "$mount" && { umount "$mount" 2>/dev/null || umount -l "$mount"; }
    if is_attached; then "$ONEFOLD" detach "$volume" >/dev/null 2>&1; fi
    if [[ -n $keep ]]; then say "left there: $work"; else rm -rf "$work"; fi
    exit "$code"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

is_attached() {
    "$ONEFOLD" status "$volume" --json >"$work/status.json" 2>/dev/null && [[ $(field "$work/status.json" attached) != None ]]
}

# field FILE KEY...: prints a value of JSON.
field() {
    python3 -c 'import json, sys
value = json.load(open(sys.argv[1]))
for key in sys.argv[2:]:
    value = value[int(key)] if isinstance(value, list) else value[key]
print(value)' "$@"
}

server_pid() {
    "$ONEFOLD" status "$volume" --json >"$work/status.json" && field "$work/status.json" pid
}

drop_caches() { echo 3 2>/dev/null >/proc/sys/vm/drop_caches || true; }

step "Choose a real tree of this machine: at least $MIB_MIN MiB and $FILES_MIN files"
# Directories two levels below /usr, beginning with those that have many files in few MiB, until there is enough of both. A bare Debian has
# too little there, so the sources of the crates, this checkout and apt's lists are added.
choose_tree() {
    {
        find /usr "${CARGO_HOME:-$HOME/.cargo}/registry/src" -mindepth 2 -maxdepth 2 -type d \
            -not -path '/usr/src/*' -print0 2>/dev/null || true
        printf '%s\0' "$PWD/.git" "$PWD/data" /var/lib/apt /var/lib/dpkg
    } |
        while IFS= read -r -d '' directory; do
            find "$directory" -xdev -type f -printf '%s\n' 2>/dev/null |
                awk -v name="$directory" '{ bytes += $1; files++ } END { if (files) printf "%d\t%d\t%s\n", bytes / 1048576, files, name }'
        done |
        awk -F '\t' '$1 <= 400' | sort -t "$(printf '\t')" -k 2,2nr |
        awk -F '\t' -v mib="$MIB_MIN" -v files="$FILES_MIN" '
            have_mib >= mib && have_files >= files { exit }
            # There are enough files already: from now on take only what adds size.
            have_files >= files * 3 && $1 < 20 { next }
            have_mib + $1 > mib * 1.6 && have_files >= files { next }
            { have_mib += $1; have_files += $2; print $3 }'
}
mapfile -t parts < <(choose_tree)
[[ ${#parts[@]} -gt 0 ]] || die "demo: found nothing to copy, neither below /usr nor among the sources of the crates"
# Take only regular files, because their checksums are verified.
(cd / && find "${parts[@]/#//.}" -xdev -type f -print0) 2>/dev/null | sort -z >"$work/files"
file_count="$(tr -cd '\0' <"$work/files" | wc -c)"
(cd / && xargs -0 sha256sum --) <"$work/files" >"$work/sums" 2>/dev/null
byte_count="$(cd / && du -cbs --files0-from="$work/files" | tail -n 1 | cut -f 1)"
mib_count=$((byte_count / 1048576))
say "$file_count files, $mib_count MiB, out of ${#parts[@]} directories: ${parts[*]:0:4} ..."
[[ $mib_count -ge $MIB_MIN && $file_count -ge $FILES_MIN ]] ||
    die "demo: /usr and the sources of the crates on this machine are not enough for $MIB_MIN MiB and $FILES_MIN files"

# The records and sockets of this run are separate from the machine's.
export ONEFOLD_RUN_DIR="$work/run"

step "Create a volume and attach it"
"$ONEFOLD" create --size 4G "$volume"
device="$("$ONEFOLD" attach "$volume" | tail -n 1)"
[[ -b $device ]] || die "demo: attach printed '$device', which is no block device"
say "attached as $device, served by process $(server_pid)"

step "Make ext4 on it and mount it"
mkfs.ext4 -q -F -m 0 "$device"
mount "$device" "$mount"

copy() { # NAME
    mkdir -p "$mount/$1"
    tar -C / --null -T "$work/files" -cf - | tar -C "$mount/$1" -xf -
    sync -f "$mount"
}

ledger() {
    "$ONEFOLD" stats "$volume"
}

step "Copy the tree in, and sync"
copy first
ledger
step "Copy it in again, and sync: nearly all of it is known already"
copy second
ledger

step "Copy it in a third time, and kill the server with -9 in the middle"
third_began=$SECONDS
# The copy has ten portions, and each is synced: what was synced has to be there after the kill, whenever it happens.
mkdir "$mount/third"
: >"$work/synced"
(
    split --number=l/10 --separator='\0' "$work/files" "$work/portion."
    for portion in "$work"/portion.*; do
        tar -C / --null -T "$portion" -cf - | tar -C "$mount/third" -xf - || exit 1
        sync -f "$mount" || exit 1
        cat "$portion" >>"$work/synced"
    done
) >"$work/copy.log" 2>&1 &
copier=$!
while [[ ! -s $work/synced ]] && kill -0 "$copier" 2>/dev/null; do sleep 0.02; done
sleep 0.3
pid="$(server_pid)"
kill -9 "$pid"
say "killed process $pid; $(tr -cd '\0' <"$work/synced" | wc -c) files of the third copy were synced until then"
copied=yes
wait "$copier" || copied=
copier=
if [[ -n $copied ]]; then
    say "a new server, process $(server_pid), took over; the copy went on and saw no error ($((SECONDS - third_began)) s)"
else
    say "the mount ended with the server (the kernel has no way to resume it): attaching again"
    tail -n 2 "$work/copy.log"
    umount "$mount" 2>/dev/null || umount -l "$mount"
    "$ONEFOLD" detach "$volume" >/dev/null 2>&1 || true
    device="$("$ONEFOLD" attach "$volume" | tail -n 1)"
    mount "$device" "$mount"
fi

step "Unmount, e2fsck"
umount "$mount"
code=0
e2fsck -f -p "$device" || code=$?
[[ $code -le 1 ]] || die "demo: e2fsck found damage (exit code $code)"
e2fsck -f -n "$device" >/dev/null || die "demo: the file system is not clean after e2fsck"
say "ext4 is clean"

step "Verify every file that was synced, by checksum, from the device"
drop_caches
mount -o ro "$device" "$mount"
verify() { # NAME SUMS
    local bad
    bad="$(cd "$mount/$1" && sha256sum --check --quiet --strict "$2" 2>&1 | head -n 5)"
    [[ -z $bad ]] || die "demo: $1: $bad"
    say "$1: $(wc -l <"$2") files, all right"
}
verify first "$work/sums"
verify second "$work/sums"
python3 - "$work/synced" "$work/sums" >"$work/sums.third" <<'PY'
import sys
synced = set(open(sys.argv[1], "rb").read().split(b"\0"))
for line in open(sys.argv[2], "rb"):
    # sha256sum escapes names with a backslash or newline in them; such a line starts with a backslash.
    name = line.rstrip(b"\n")[66:]
    if line.startswith(b"\\"):
        name = line[1:].rstrip(b"\n")[66:].replace(b"\\n", b"\n").replace(b"\\\\", b"\\")
    if name in synced:
        sys.stdout.buffer.write(line)
PY
[[ -s $work/sums.third ]] || die "demo: nothing of the third copy was synced"
verify third "$work/sums.third"
umount "$mount"
ledger

# What reached the disk below, which others use as well.
"$ONEFOLD" stats "$volume" --json >"$work/stats.json"
written="$(python3 - "$work/stats.json" <<'PY'
import json, sys
stats = json.load(open(sys.argv[1]))
clients, store = (stats["ledger"][units] * 4096 for units in ("client_units", "device_units"))
disks = stats["disk"]["disks"]
below = sum(disk["written_bytes"] for disk in disks)
names = ", ".join(disk["disk"] for disk in disks)
disk = f"{below >> 20} MiB by the disk below ({names}, with what others wrote to it)" if disks else stats["disk"]["unknown"]
print(f"{clients >> 20} MiB by clients, {store >> 20} MiB to the store, {disk}")
PY
)"

step "Detach, and check every link and every block's content"
"$ONEFOLD" detach "$volume"
"$ONEFOLD" check --data "$volume"

say
say "The demo took $((SECONDS - began)) s after the build. Nothing that was synced was lost."
say "Saved: $("$ONEFOLD" stats "$volume" | sed -n 's/^saved *//p'). Written: $written."
