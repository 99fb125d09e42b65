#!/usr/bin/env bash
# An office: LibreOffice makes documents of drafts, which grow, are saved again and again, and exported as PDF.
# usage: office.sh DIRECTORY [CACHE]
# packages: libreoffice-writer-nogui imagemagick
# shellcheck source-path=SCRIPTDIR
set -euo pipefail
source "$(dirname "$0")/load.sh"

SAVES=16

prepare() {
    local n
    for n in 1 2 3 4; do photo $n 1400x1000 "picture$n.jpg"; done
    for n in $(seq $SAVES); do
        {
            echo "<html><body><h1>Report</h1>"
            for part in $(seq "$n"); do
                echo "<h2>Chapter $part</h2><p>$(words "$part" 1500)</p>"
                if ((part % 3 == 0)); then echo "<p><img src=\"picture$((part / 3 % 4 + 1)).jpg\"></p>"; fi
            done
            echo "</body></html>"
        } >"draft$n.html"
    done
}

office() { soffice -env:UserInstallation="file://$HOME/office" --headless --norestore "$@" >/dev/null 2>&1; }

work() {
    local n
    mkdir documents saves
    cp "$CACHE"/picture*.jpg documents/
    for n in $(seq $SAVES); do
        cp "$CACHE/draft$n.html" documents/report.html
        # The document is saved with the pictures inside, the one before is kept as its backup.
        office --infilter="HTML (StarWriter)" --convert-to odt:writer8 --outdir saves documents/report.html
        if [[ -f documents/report.odt ]]; then cp documents/report.odt documents/report.odt.bak; fi
        save documents/report.odt <saves/report.odt
        if ((n % 4 == 0)); then
            office --convert-to pdf --outdir documents documents/report.odt
            office --convert-to docx --outdir documents documents/report.odt
            forget
        fi
    done
}

run_load "$@"
