#!/usr/bin/env bash
# A browser: headless Firefox over the pages of a local server, started again and again, with its profile and cache.
# usage: browser.sh DIRECTORY [CACHE]
# packages: firefox-esr imagemagick
# shellcheck source-path=SCRIPTDIR
set -euo pipefail
source "$(dirname "$0")/load.sh"

PAGES=10
VISITS=14
PORT=18459

prepare() {
    local n picture
    mkdir site
    for n in $(seq $PAGES); do
        {
            echo "<html><head><link rel=stylesheet href=style.css></head><body>"
            for picture in 1 2 3 4; do
                photo "$((n * 10 + picture))" 800x600 "site/$n-$picture.jpg"
                echo "<img src=$n-$picture.jpg>"
            done
            echo "<p>$(words "$n" 6000)</p>"
            echo "<script>"
            echo "for (let i = 0; i < 40; i++) localStorage.setItem('page$n.' + i, ('draft ' + i + ' ').repeat(200));"
            echo "document.cookie = 'visit$n=' + Date.now() + ';max-age=99999';"
            echo "indexedDB.open('store', $n).onupgradeneeded = e => {"
            echo "  const s = e.target.result.createObjectStore('page$n', {autoIncrement: true});"
            echo "  for (let i = 0; i < 200; i++) s.add({title: 'row ' + i, text: 'text '.repeat(i)}); };"
            echo "</script></body></html>"
        } >"site/$n.html"
    done
    words 99 3000 | sed 's/^/p::after { content: "/; s/$/"; }/' >site/style.css
}

work() {
    local n
    /usr/bin/python3 -m http.server --bind 127.0.0.1 --directory "$CACHE/site" $PORT >/dev/null 2>&1 &
    local server=$!
    # shellcheck disable=SC2064
    trap "kill $server 2>/dev/null || true" EXIT
    until (exec 3<>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null; do sleep 0.1; done
    export XDG_CACHE_HOME="$HOME/cache" MOZ_HEADLESS=1
    mkdir profile
    for n in $(seq $VISITS); do
        firefox-esr --headless --profile profile --screenshot "$PWD/page.png" \
            "http://127.0.0.1:$PORT/$((n % PAGES + 1)).html" >/dev/null 2>&1
        [[ -s page.png ]]
        rm page.png
        forget
    done
    kill $server
    trap - EXIT
}

run_load "$@"
