#!/usr/bin/env bash
# Mail: maildrop delivers messages into a maildir, notmuch indexes and tags them, old ones go to an archive and some are deleted.
# usage: mail.sh DIRECTORY [CACHE]
# packages: maildrop notmuch imagemagick
# shellcheck source-path=SCRIPTDIR
set -euo pipefail
source "$(dirname "$0")/load.sh"

BATCHES=12
MESSAGES=60

prepare() {
    local batch n picture
    for picture in 1 2 3 4; do
        photo $picture 1000x750 "photo$picture.jpg"
        base64 "photo$picture.jpg" >"photo$picture.txt"
    done
    for batch in $(seq $BATCHES); do
        mkdir "batch$batch"
        for n in $(seq $MESSAGES); do message $((batch * 1000 + n)) >"batch$batch/$n"; done
    done
}

# message NUMBER: prints a message, one in ten with a photo. Several people send the same one.
message() {
    printf 'From: friend%d@example.org\nTo: load@example.org\nSubject: %s\n' $(($1 % 17)) "$(words "$1" 5 | sed -n 1p)"
    printf 'Date: Thu, 01 Jan 2026 %02d:%02d:00 +0000\nMessage-ID: <%d@example.org>\n' $(($1 / 60 % 24)) $(($1 % 60)) "$1"
    (($1 % 3)) || printf 'In-Reply-To: <%d@example.org>\n' $(($1 - 1))
    printf 'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="part"\n\n--part\nContent-Type: text/plain\n\n'
    words "$1" $((100 + $1 * 37 % 900))
    if (($1 % 10 == 0)); then
        printf '\n--part\nContent-Type: image/jpeg\nContent-Transfer-Encoding: base64\n\n'
        cat "photo$(($1 / 10 % 4 + 1)).txt"
    fi
    printf '\n--part--\n'
}

work() {
    local batch n
    mkdir -p mail/{cur,new,tmp} mail/archive/{cur,new,tmp}
    printf 'to "%s"\n' "$PWD/mail" >filter
    chmod 600 filter
    printf '[database]\npath=%s\n[user]\nname=load\nprimary_email=load@example.org\n[new]\ntags=unread;inbox\n' "$PWD/mail" >config
    export NOTMUCH_CONFIG="$PWD/config"
    for batch in $(seq $BATCHES); do
        for n in $(seq $MESSAGES); do maildrop "$PWD/filter" <"$CACHE/batch$batch/$n"; done
        notmuch new --quiet
        # Read some, answer some, which is mail, too; archive a part of the oldest.
        notmuch search --limit=20 'tag:unread' >/dev/null
        notmuch tag +read -unread -- "from:friend$((batch % 17))@example.org"
        notmuch show --format=json 'tag:read' >/dev/null
        find mail/new -type f | sort | sed -n 1,30p | while read -r n; do mv "$n" "mail/archive/cur/${n##*/}:2,S"; done
        find mail/archive/cur -type f | sort | sed -n 1,5p | xargs --no-run-if-empty rm
        notmuch new --quiet
        forget
    done
    notmuch compact --quiet
}

run_load "$@"
