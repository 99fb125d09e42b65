#!/usr/bin/env bash
# Compile the observer's BPF program, and say whether the committed object is the same.
#
# usage: ./dev bpf [--check | --into FILE]
#
#   --check       compile nothing: fail if a source or the object has changed since the object was made
#   --into FILE   compile into FILE, and leave the committed object alone
#
# The object is in the tree, so that a build needs no clang. Beside it, observer/bpf/observe.sha256 has the digests of its sources, and
# its own. Another version of clang makes another object of the same sources; both are right, so --check does not compare objects.
# It needs clang 14 or newer, llvm-strip and libbpf's headers, and installs what is missing by apt.
set -euo pipefail
source tools/dev/lib.sh
help_if_asked "$0" "$@"

folder=observer/bpf object=observe.bpf.o digests=observe.sha256
sources=(kernel.h observe.bpf.c observe.h)

compile() { # FILE
    local file
    file="$(realpath -m "$1")"
    mkdir -p "$(dirname "$file")"
    # The names of the sources are in the object: from within their folder they are the same everywhere.
    (cd "$folder" && clang -O2 -g -target bpf -mcpu=v3 -Wall -Wextra -Werror -c observe.bpf.c -o "$file") &&
        # The lines of the sources go, the types stay.
        llvm-strip -g "$file"
}

case "${1:-}" in
--check)
    [[ $# -eq 1 ]] || misused "bpf: --check takes nothing"
    (cd "$folder" && sha256sum --quiet --strict --check "$digests") ||
        die "bpf: $folder/$object is not the one that was made of these sources: run ./dev bpf, and commit both"
    say "bpf: $folder/$object was made of these sources"
    ;;
--into)
    [[ $# -eq 2 ]] || misused "bpf: --into needs a file"
    need clang llvm-strip libbpf-dev
    compile "$2"
    ;;
'')
    need clang llvm-strip libbpf-dev
    made="$(target_dir)/bpf/$object"
    compile "$made"
    if cmp -s "$made" "$folder/$object"; then
        say "bpf: $folder/$object is the same"
    else
        cp "$made" "$folder/$object"
        say "bpf: $folder/$object is another one now, by $(clang --version | head -n 1)"
    fi
    (cd "$folder" && sha256sum "${sources[@]}" "$object" >"$digests")
    ;;
*) misused "bpf: unknown argument '$1'; see ./dev bpf --help" ;;
esac
