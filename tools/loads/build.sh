#!/usr/bin/env bash
# A build: a program in C is compiled twice by make, with debugging information, changed here and there, tested and packed.
# usage: build.sh DIRECTORY [CACHE]
# packages: gcc make libc6-dev dpkg-dev
# shellcheck source-path=SCRIPTDIR
set -euo pipefail
source "$(dirname "$0")/load.sh"

# The source is Debian's.
SOURCE=libzstd

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
    compile
    forget
    for n in 1 2; do
        # A change of a header compiles a good part again, one of a source file little.
        echo "#define HEADER_CHANGE_$n $n" >>lib/common/debug.h
        compile
        echo "int source_change_$n(void) { return $n; }" >>lib/decompress/zstd_decompress.c
        compile
    done
    mkdir packed
    ./programs/zstd --quiet --force -5 -r programs lib --output-dir-flat packed
    install -D programs/zstd ../installed/bin/zstd
    cp -r lib ../installed/
    make --silent clean >/dev/null
    forget
    compile
    cd ..
    tar --create --gzip --file installed.tar.gz installed
    cp -a source second
    make --silent -C second clean >/dev/null
    (cd second && compile)
}

compile() {
    make --silent --jobs=2 -C programs zstd MOREFLAGS="-O0 -g3" HAVE_LZMA=0 HAVE_LZ4=0 HAVE_ZLIB=0 >/dev/null
    [[ -x programs/zstd ]]
    sync -f .
}

run_load "$@"
