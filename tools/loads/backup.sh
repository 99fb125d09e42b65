#!/usr/bin/env bash
# A backup: rsync takes a home directory to the disk day by day, restic keeps snapshots of it, forgets old ones, and restores one.
# usage: backup.sh DIRECTORY [CACHE]
# packages: restic rsync imagemagick openssl
# shellcheck source-path=SCRIPTDIR
set -euo pipefail
source "$(dirname "$0")/load.sh"

DAYS=5

prepare() {
    local n
    mkdir -p day1/{photos,documents,mail}
    for n in $(seq 8); do photo "$n" 1800x1200 "day1/photos/$n.jpg"; done
    for n in $(seq 200); do words "$n" $((n * 50)) >"day1/documents/$n.txt"; done
    for n in $(seq 6); do words $((1000 + n)) 60000 >"day1/mail/$n.mbox"; done
    for n in $(seq 2 $DAYS); do
        cp -a "day$((n - 1))" "day$n"
        photo $((100 + n)) 1800x1200 "day$n/photos/new$n.jpg"
        words $((2000 + n)) 3000 >>"day$n/mail/$((n % 6 + 1)).mbox"
        words $((3000 + n)) 4000 >"day$n/documents/$n.txt"
        mv "day$n/documents/$((n + 100)).txt" "day$n/documents/moved$n.txt"
        rm "day$n/documents/$((n + 150)).txt"
    done
}

work() {
    local day
    export RESTIC_PASSWORD=load RESTIC_CACHE_DIR="$HOME/cache"
    mkdir mirror kept
    restic init --quiet --repo repository
    for day in $(seq $DAYS); do
        # The mirror is the disk's copy of the home; of each day the old state is kept, by links where nothing changed.
        rsync --archive --delete "$CACHE/day$day/" mirror/
        cp --archive --link mirror "kept/day$day"
        (cd mirror && restic backup --quiet --repo ../repository .)
        forget
    done
    restic forget --quiet --repo repository --keep-last 3 --prune
    restic restore latest --quiet --repo repository --target restored
    sync -f .
}

run_load "$@"
