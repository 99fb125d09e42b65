#!/usr/bin/env bash
# A music library: songs are copied in, their tags are written again and again, covers are put into them, playlists are saved.
# usage: music.sh DIRECTORY [CACHE]
# packages: ffmpeg python3-mutagen id3v2 imagemagick
# shellcheck source-path=SCRIPTDIR
set -euo pipefail
source "$(dirname "$0")/load.sh"

SONGS=30

prepare() {
    local n
    mkdir songs
    for n in $(seq $SONGS); do
        ffmpeg -v error -f lavfi -i "anoisesrc=seed=$n:color=pink:duration=60:amplitude=0.3" \
            -f lavfi -i "sine=frequency=$((110 + n * 7)):duration=60" \
            -filter_complex "amix=inputs=2" -c:a libmp3lame -b:a 160k -fflags +bitexact "songs/song$n.mp3"
    done
    for n in 1 2 3 4; do photo $n 600x600 "cover$n.jpg"; done
}

work() {
    local n
    mkdir library
    for n in $(seq $SONGS); do
        cp "$CACHE/songs/song$n.mp3" library/
        # The first tag is put before the sound, which moves: the file is written as a whole. Later ones fit into the space left.
        mid3v2 --artist "Artist $((n % 5))" --album "Album $((n / 6))" --song "Song $n" --track "$n" "library/song$n.mp3"
        if ((n % 6 == 0)); then forget; fi
    done
    for n in $(seq $SONGS); do
        mid3v2 --genre "Genre $((n % 3))" --year $((1990 + n)) "library/song$n.mp3"
        printf '%s\n' library/* | sed -n "1,${n}p" | save playlist.m3u
    done
    forget
    # A cover does not fit: the files of two albums are written again.
    for n in $(seq 18); do mid3v2 --picture "$CACHE/cover$((n / 6 % 4 + 1)).jpg" "library/song$n.mp3"; done
    # A second program has another idea of tags.
    for n in $(seq 1 3 $SONGS); do id3v2 --comment "heard $n times" "library/song$n.mp3"; done
    mkdir player
    cp library/song{1,2,3,4,5,6}.mp3 player/
}

run_load "$@"
