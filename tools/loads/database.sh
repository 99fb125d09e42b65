#!/usr/bin/env bash
# A database: PostgreSQL under pgbench, one client and four, with a vacuum, an index made anew, and a dump.
# usage: database.sh DIRECTORY [CACHE]
# packages: postgresql
# shellcheck source-path=SCRIPTDIR
set -euo pipefail
source "$(dirname "$0")/load.sh"

SCALE=2
# Checkpoints as often as on a machine that runs for a day.
SETTINGS="-c checkpoint_timeout=30s -c max_wal_size=48MB -c min_wal_size=32MB"

# as_server WORD...: runs a program of PostgreSQL as the user that may.
as_server() {
    local place
    place="$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n 1)"
    (cd server && runuser -u postgres -- env PATH="$place:$PATH" PGDATA="$PWD/data" PGHOST="$PWD" "$@" >/dev/null 2>&1)
}

work() {
    local path
    mkdir server
    chown postgres server
    # The user of the database has to get to its directory.
    for path in . .. ../..; do chmod o+x "$path"; done
    trap 'as_server pg_ctl stop -m immediate || true' EXIT
    as_server initdb -A trust --no-instructions
    as_server pg_ctl start -w -l server.log -o "-k $PWD/server -c listen_addresses= $SETTINGS"
    as_server pgbench -q -i -s $SCALE postgres
    as_server pgbench --random-seed=1 -c 1 -t 1500 postgres
    as_server pgbench --random-seed=2 -c 4 -t 500 postgres
    as_server pg_ctl restart -w -m fast -l server.log
    as_server psql -c "VACUUM" postgres
    as_server psql -c "REINDEX TABLE pgbench_accounts" postgres
    as_server pgbench --random-seed=3 -c 2 -t 500 postgres
    as_server pg_dump --file=dump.sql postgres
    as_server pg_ctl stop -w -m fast
    trap - EXIT
}

run_load "$@"
