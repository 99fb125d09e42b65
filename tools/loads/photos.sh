#!/usr/bin/env bash
# Photos: they are imported from a card, get thumbnails and previews in several sizes, some are edited, and an album is exported.
# usage: photos.sh DIRECTORY [CACHE]
# packages: imagemagick rsync sqlite3
# shellcheck source-path=SCRIPTDIR
set -euo pipefail
source "$(dirname "$0")/load.sh"

PHOTOS=12

prepare() {
    local n
    mkdir card
    for n in $(seq $PHOTOS); do photo $((500 + n)) 1600x1200 "card/img$n.jpg"; done
}

work() {
    local n
    mkdir originals thumbnails previews album
    sqlite3 catalogue.db "CREATE TABLE photo (id INTEGER PRIMARY KEY, path TEXT, edited INTEGER, size INTEGER)"
    # The second import finds the first half there, and takes it again, as a new import into its own folder does.
    rsync --archive "$CACHE"/card/img{1,2,3,4,5,6,7,8}.jpg originals/
    rsync --archive "$CACHE"/card/ originals/second/
    for n in $(seq $PHOTOS); do
        sqlite3 catalogue.db "INSERT INTO photo VALUES ($n, 'originals/second/img$n.jpg', 0, $(stat -c %s "originals/second/img$n.jpg"))"
        convert "originals/second/img$n.jpg" -thumbnail 256x256 "thumbnails/$n.jpg"
        convert "originals/second/img$n.jpg" -resize 1280x1280 "previews/$n.jpg"
        if ((n % 4 == 0)); then
            # An edit writes the preview anew, and the picture in full size.
            convert "originals/second/img$n.jpg" -modulate 110,120 "album/edited$n.jpg"
            convert "album/edited$n.jpg" -resize 1280x1280 "previews/$n.jpg"
            sqlite3 catalogue.db "UPDATE photo SET edited = 1 WHERE id = $n"
            forget
        fi
        if ((n % 5 == 0)); then
            # A rotation without loss of what is in the file but the orientation.
            mogrify -orient right-top "originals/second/img$n.jpg"
        fi
    done
    cp previews/{1,2,3,4,5,6}.jpg album/
    rm originals/second/img{3,7}.jpg
}

run_load "$@"
