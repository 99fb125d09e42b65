#!/usr/bin/env bash
# Logs of a server: rsyslog writes what logger sends, logrotate rotates and compresses the files again and again.
# usage: logs.sh DIRECTORY [CACHE]
# packages: rsyslog logrotate gzip bsdutils
# shellcheck source-path=SCRIPTDIR
set -euo pipefail
source "$(dirname "$0")/load.sh"

ROUNDS=8
LINES=30000

prepare() {
    # What a web server, a mail server and a firewall log; the same each time.
    local n
    for n in $(seq $ROUNDS); do
        awk -v seed="$n" -v lines=$LINES 'BEGIN {
            srand(seed)
            for (n = 1; n <= lines; n++) {
                who = "10." int(rand() * 4) "." int(rand() * 9) "." int(rand() * 255)
                kind = rand()
                if (kind < 0.7)
                    printf "web: %s GET /page/%d HTTP/1.1 %d %d\n", who, rand() * 400, rand() < 0.9 ? 200 : 404, rand() * 50000
                else if (kind < 0.9)
                    printf "mail: id %08x from=<user%d@example.org> size=%d status=sent\n", rand() * 2147483647, rand() * 50, rand() * 90000
                else
                    printf "firewall: drop in=eth0 src=%s dst=192.0.2.%d proto=tcp dport=%d\n", who, rand() * 9, rand() * 65535
            }
        }' >"lines$n"
    done
}

configure() {
    mkdir log state
    cat >rsyslog.conf <<END
module(load="imuxsock" SysSock.Use="off")
input(type="imuxsock" Socket="$PWD/state/socket" RateLimit.Interval="0")
template(name="line" type="string" string="2026-01-01T00:00:00 host %msg:::drop-last-lf%\n")
global(workDirectory="$PWD/state")
:msg, contains, "mail:" action(type="omfile" file="$PWD/log/mail.log" template="line" sync="on")
:msg, contains, "web:" action(type="omfile" file="$PWD/log/web.log" template="line")
:msg, contains, "firewall:" action(type="omfile" file="$PWD/log/firewall.log" template="line")
action(type="omfile" file="$PWD/log/syslog" template="line")
END
    cat >logrotate.conf <<END
$PWD/log/*.log $PWD/log/syslog {
    rotate 5
    compress
    delaycompress
    missingok
    sharedscripts
    su root root
    postrotate
        kill -HUP \$(cat $PWD/state/pid)
    endscript
}
END
}

work() {
    local n
    configure
    rsyslogd -n -f rsyslog.conf -i "$PWD/state/pid" &
    local server=$!
    # shellcheck disable=SC2064
    trap "kill $server 2>/dev/null || true" EXIT
    until [[ -S state/socket ]]; do sleep 0.1; done
    for n in $(seq $ROUNDS); do
        logger --socket "$PWD/state/socket" --socket-errors=off --file "$CACHE/lines$n"
        sleep 3
        sync
        logrotate --force --state "$PWD/state/rotated" logrotate.conf
    done
    kill $server
    wait $server || true
    trap - EXIT
}

run_load "$@"
