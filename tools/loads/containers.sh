#!/usr/bin/env bash
# Containers: skopeo pulls images whose layers are partly the same, umoci unpacks and changes them, old ones are removed.
# usage: containers.sh DIRECTORY [CACHE]
# packages: skopeo umoci
# shellcheck source-path=SCRIPTDIR
set -euo pipefail
source "$(dirname "$0")/load.sh"

# The packages in each layer of the images; the first is the base of all.
declare -A PACKAGES=(
    [base]="base-files bash coreutils libc6 libtinfo6 libselinux1 libpcre2-8-0 dash grep sed gzip tar"
    [python]="python3.11-minimal libpython3.11-minimal libexpat1 zlib1g"
    [web]="nginx libssl3 libpcre2-8-0"
    [data]="sqlite3 libsqlite3-0 libreadline8"
)

prepare() {
    local layer packages
    umoci init --layout registry
    for layer in base python web data; do
        read -ra packages <<<"${PACKAGES[$layer]}"
        mkdir -p "packages/$layer" "layer/$layer"
        (cd "packages/$layer" && apt-get -o APT::Sandbox::User=root download -qq "${packages[@]}")
        for deb in packages/"$layer"/*.deb; do dpkg-deb --extract "$deb" "layer/$layer"; done
    done
    umoci new --image registry:base
    umoci insert --image registry:base layer/base /
    for layer in python web data; do umoci insert --image registry:base --tag "$layer" "layer/$layer" /; done
    # The next version of one of them has a file more, and the same layers below.
    mkdir layer/next
    words 7 20000 >layer/next/application
    umoci insert --image registry:python --tag python2 layer/next /srv
    rm -r packages layer
}

work() {
    local image
    umoci init --layout images
    for image in base python web data python2; do
        skopeo copy --quiet "oci:$CACHE/registry:$image" "oci:images:$image"
        forget
    done
    mkdir running
    for image in python web python2; do
        umoci unpack --image "images:$image" "running/$image" 2>/dev/null
        # The program runs, and writes into its own tree; the change is committed as a layer.
        words 3 30000 >"running/$image/rootfs/srv.log"
        words 4 500 >>"running/$image/rootfs/etc/issue"
        umoci repack --image "images:$image-changed" "running/$image" 2>/dev/null
        sync -f .
        forget
    done
    rm -r running/python
    umoci remove --image images:data
    umoci gc --layout images
    skopeo copy --quiet oci:images:python2-changed "dir:$PWD/pushed"
}

run_load "$@"
