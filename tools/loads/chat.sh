#!/usr/bin/env bash
# A chat: messages in an SQLite database with a write-ahead log, each a transaction, and the photos that come with them.
# usage: chat.sh DIRECTORY [CACHE]
# packages: sqlite3 imagemagick openssl
# shellcheck source-path=SCRIPTDIR
set -euo pipefail
source "$(dirname "$0")/load.sh"

MESSAGES=3000
PHOTOS=12

prepare() {
    for n in $(seq $PHOTOS); do photo "$n" 1600x1200 "photo$n.jpg"; done
    # A conversation: one or more statements a message, among them those that mark messages as read and search for them.
    awk -v messages=$MESSAGES 'BEGIN {
        srand(3)
        print "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
        print "CREATE TABLE chat (id INTEGER PRIMARY KEY, name TEXT, last INTEGER);"
        print "CREATE TABLE message (id INTEGER PRIMARY KEY, chat INTEGER, at INTEGER, body TEXT, state TEXT, media TEXT);"
        print "CREATE INDEX by_chat ON message (chat, at);"
        print "CREATE VIRTUAL TABLE search USING fts5 (body);"
        for (n = 1; n <= 20; n++) printf "INSERT INTO chat VALUES (%d, \"friend %d\", 0);\n", n, n
        for (n = 1; n <= messages; n++) {
            body = ""
            for (w = 3 + int(rand() * 30); w > 0; w--) body = body "word" int(rand() * rand() * 5000) " "
            chat = 1 + int(rand() * rand() * 20)
            printf "BEGIN; INSERT INTO message VALUES (%d, %d, %d, \"%s\", \"new\", NULL);", n, chat, 1700000000 + n * 7, body
            printf "INSERT INTO search (rowid, body) VALUES (%d, \"%s\");", n, body
            printf "UPDATE chat SET last = %d WHERE id = %d; COMMIT;\n", n, chat
            if (n % 5 == 0) printf "UPDATE message SET state = \"read\" WHERE chat = %d AND state = \"new\";\n", chat
        }
    }' >conversation.sql
}

work() {
    local n part=$((($(wc -l <"$CACHE/conversation.sql") + PHOTOS - 1) / PHOTOS))
    mkdir media thumbnails
    split --lines=$part --numeric-suffixes=1 "$CACHE/conversation.sql" "$CACHE/part."
    for n in $(seq $PHOTOS); do
        forget
        # The program is opened, some messages come and go, and one of them has a photo, which is sent on now and then.
        sqlite3 chat.db "SELECT count(*), max(at) FROM message WHERE chat < 9" >>/dev/null 2>&1 || true
        sqlite3 chat.db <"$CACHE/part.$(printf '%02d' "$n")" >/dev/null
        save "media/photo$n.jpg" <"$CACHE/photo$n.jpg"
        convert "media/photo$n.jpg" -thumbnail 320x240 -strip "thumbnails/photo$n.jpg"
        if ((n % 4 == 0)); then save "media/sent$n.jpg" <"media/photo$n.jpg"; fi
        sqlite3 chat.db "UPDATE message SET media = 'media/photo$n.jpg' WHERE id = (SELECT max(id) FROM message)"
    done
    # The backup that such programs make of their database.
    sqlite3 chat.db ".backup backup.db"
    sync backup.db
}

run_load "$@"
