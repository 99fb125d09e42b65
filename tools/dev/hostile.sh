#!/usr/bin/env bash
# Attach, check and dump images that somebody crafted: an error or service, within memory.
#
# usage: ./dev hostile [--images N] [--seed N] [--threads N] [--only N] [--dir DIRECTORY]
#
#   --images N       the number of images (default 200; about 10 a second on two cores)
#   --seed N         the seed of the images (default 1)
#   --threads N      the number of images at a time (default 2)
#   --only N         try only image number N of the seed
#   --dir DIRECTORY  the directory of the images (default: a scratch directory)
#
# The program is app/examples/hostile/: it writes hostile numbers into superblocks, pages and units of the log, with every check made right,
# and runs the built binary on them. Prints seed and count; ends with 1 where something panics, hangs, dies, or takes too much memory.
set -euo pipefail
source tools/dev/lib.sh
help_if_asked "$0" "$@"

directory=
options=()
while [[ $# -gt 0 ]]; do
    case "$1" in
    --dir) directory="${2:?--dir needs a directory}" && shift 2 ;;
    --images | --seed | --threads | --only)
        [[ ${2:-} =~ ^[0-9]{1,18}$ ]] || misused "hostile: $1 needs a number"
        [[ $1 == --only || $1 == --seed || $2 -gt 0 ]] || misused "hostile: $1 needs a number above 0"
        options+=("$1" "$2") && shift 2
        ;;
    *) misused "hostile: unknown argument '$1'; see ./dev hostile --help" ;;
    esac
done
[[ -z $directory || -d $directory ]] || misused "hostile: there is no directory '$directory'"
bash tools/dev/setup.sh build
build_onefold
cargo build --profile "$profile" --locked --quiet -p onefold --example hostile
if [[ -z $directory ]]; then
    directory="$(mktemp -d)"
    trap 'rm -rf "$directory"' EXIT
fi
"$(binaries)/examples/hostile" "$ONEFOLD" "$directory" "${options[@]}"
