#!/usr/bin/env bash
# A camera: ffmpeg encodes videos of a drawn scene, which are synced while they grow, cut afterwards, and get posters.
# usage: camera.sh DIRECTORY [CACHE]
# packages: ffmpeg
# shellcheck source-path=SCRIPTDIR
set -euo pipefail
source "$(dirname "$0")/load.sh"

VIDEOS=6

work() {
    local n encoder
    mkdir videos
    for n in $(seq $VIDEOS); do
        ffmpeg -v error -f lavfi -i "testsrc2=size=1280x720:rate=25:duration=8,noise=alls=$((10 + n)):allf=t:all_seed=$n" \
            -f lavfi -i "sine=frequency=$((220 * n)):duration=8" -c:v mpeg4 -b:v 12M -c:a aac -fflags +bitexact -flags:v +bitexact \
            -threads 2 "videos/$n.mp4" &
        encoder=$!
        # The recording has to be there if the battery falls out.
        while kill -0 $encoder 2>/dev/null; do
            sync "videos/$n.mp4" 2>/dev/null || true
            sleep 1
        done
        wait $encoder
        forget
        # Made ready for the web: the table of contents comes to the front, and all else is written again.
        ffmpeg -v error -i "videos/$n.mp4" -c copy -movflags +faststart -fflags +bitexact "videos/$n.web.mp4"
        ffmpeg -v error -ss 2 -i "videos/$n.mp4" -frames:v 1 "videos/$n.jpg"
    done
    # A part of the last two, without encoding it again; the raw files of the first are deleted.
    ffmpeg -v error -ss 2 -t 4 -i videos/3.mp4 -c copy -fflags +bitexact videos/part.mp4
    cp videos/4.mp4 videos/shared.mp4
    rm videos/1.mp4
}

run_load "$@"
