#!/usr/bin/env bash
# A package manager: dpkg installs packages into a tree of its own, upgrades them, and removes some.
# usage: packages.sh DIRECTORY [CACHE]
# packages: dpkg apt
# shellcheck source-path=SCRIPTDIR
set -euo pipefail
source "$(dirname "$0")/load.sh"

# Libraries, programs and documentation; those of which another version is available are upgraded to it, the others are installed again.
PACKAGES="libxml2 libcurl4 curl git-man libssl3 openssl libexpat1 libsqlite3-0 vim-runtime libpython3.11-minimal liblzma5 xz-utils zlib1g
 libpng16-16 libjpeg62-turbo libfreetype6 nano less bc jq libjq1 libonig5 mawk tree"

prepare() {
    local package version
    mkdir old new
    for package in $PACKAGES; do
        mapfile -t versions < <(apt-cache madison "$package" | awk '{ print $3 }' | sort -uV)
        version="${versions[-1]}"
        (cd new && apt-get -o APT::Sandbox::User=root download -qq "$package=$version")
        ((${#versions[@]} < 2)) || version="${versions[-2]}"
        (cd old && apt-get -o APT::Sandbox::User=root download -qq "$package=$version")
    done
    # The tree has no shell for the packages' scripts: they are left out.
    without_scripts old
    without_scripts new
}

work() {
    mkdir -p root/var/lib/dpkg/{updates,info,triggers}
    : >root/var/lib/dpkg/status
    : >root/var/lib/dpkg/available
    local dpkg=(dpkg --root="$PWD/root" --force-depends --force-bad-path --no-triggers) n
    for n in "$CACHE"/old/*.deb; do "${dpkg[@]}" --install "$n"; done
    forget
    "${dpkg[@]}" --install "$CACHE"/new/*.deb
    forget
    "${dpkg[@]}" --remove jq libjq1 libonig5 tree bc
    "${dpkg[@]}" --install "$CACHE"/new/{jq,libjq1,libonig5}_*.deb
}

# without_scripts FOLDER: makes the packages of a folder anew, without scripts.
without_scripts() {
    local package
    for package in "$1"/*.deb; do
        dpkg-deb --raw-extract "$package" tree
        rm -f tree/DEBIAN/{preinst,postinst,prerm,postrm,config,triggers}
        dpkg-deb -Zgzip -z1 --build tree "$package" >/dev/null
        rm -r tree
    done
}

run_load "$@"
