#!/usr/bin/env bash
# A build: a compiler in C is compiled twice by make, with debugging information, changed here and there, tested and packed.
# usage: build.sh DIRECTORY [CACHE]
# packages: gcc make libc6-dev dpkg-dev
# shellcheck source-path=SCRIPTDIR
set -euo pipefail
source "$(dirname "$0")/load.sh"

# The source is Debian's.
SOURCE=lua5.4

prepare() {
    # Lists of sources of its own: the machine's may have none.
    local place
    place="$(apt-get indextargets --format "\$(ORIGIN) \$(COMPONENT) \$(REPO_URI) \$(RELEASE)" 'Created-By: Packages' |
        awk '$1 == "Debian" && $2 == "main" && $3 !~ /security/ { print $3, $4; exit }')"
    echo "deb-src [trusted=yes] ${place% *} ${place#* } main" >sources.list
    mkdir -p lists/partial
    local own=(-o Dir::Etc::sourcelist="$PWD/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$PWD/lists"
        -o APT::Sandbox::User=root)
    apt-get "${own[@]}" update -qq
    apt-get "${own[@]}" source -qq --download-only "$SOURCE"
    rm -r lists
}

work() {
    local n
    dpkg-source --no-check --extract "$CACHE"/*.dsc source >/dev/null
    cd source
    export CFLAGS="-g3 -O1"
    compile
    forget
    for n in 1 2 3 4 5 6; do
        # A change of a header compiles nearly all again, one of a source file a part.
        echo "/* change $n */" >>src/lobject.h
        compile
        echo "/* change $n */" >>src/lvm.c
        compile
    done
    mkdir ../installed
    make --silent -C src clean
    forget
    compile
    cp src/lua src/luac src/*.a ../installed/
    cd ..
    tar --create --gzip --file installed.tar.gz installed
    cp -a source second
    make --silent -C second/src clean
    (cd second && compile)
}

compile() {
    make --silent --jobs=2 -C src all SYSCFLAGS="-DLUA_USE_POSIX" SYSLIBS="-lm" MYCFLAGS="$CFLAGS" >/dev/null 2>&1
    sync -f .
}

run_load "$@"
