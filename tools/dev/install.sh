#!/usr/bin/env bash
# Install Onefold on this machine: the program, its manual, completions, and what udev and systemd need.
#
# usage: ./dev install [--prefix DIRECTORY] [--root DIRECTORY] [--binary FILE]
#
#   --prefix DIRECTORY   the place of everything (default: /usr/local)
#   --root DIRECTORY     put it below this directory, as for a package (default: /)
#   --binary FILE        install this program instead of building one
#
# Installing again replaces what is there; volumes that are attached go on with the program that serves them. `./dev uninstall` with the
# same options removes it all.
set -euo pipefail
source tools/dev/lib.sh
help_if_asked "$0" "$@"

prefix=/usr/local root='' binary='' library=''
while [[ $# -gt 0 ]]; do
    case "$1" in
    --prefix) prefix="${2:?--prefix needs a directory}" && shift 2 ;;
    --root) root="${2:?--root needs a directory}" && shift 2 ;;
    --binary) binary="${2:?--binary needs a file}" && shift 2 ;;
    *) misused "install: unknown argument '$1'; see ./dev install --help" ;;
    esac
done
[[ $prefix == /* ]] || misused "install: --prefix $prefix: give a path that begins with /"
[[ -z $binary || -x $binary ]] || misused "install: --binary $binary: there is no such program"

if [[ -z $binary ]]; then
    bash tools/dev/setup.sh build >/dev/null
    step "Build"
    build_onefold
    binary="$ONEFOLD"
    cargo build --release --locked --quiet -p onefold-hint
    library=target/release/libonefold_hint.so
fi
# Beside a program that was built elsewhere.
[[ -n $library || ! -f $(dirname "$binary")/libonefold_hint.so ]] || library="$(dirname "$binary")/libonefold_hint.so"
place="$root$prefix"
mkdir -p "$place" 2>/dev/null && [[ -w $place ]] ||
    die "install: cannot write to $place; run it again with sudo, or give another --prefix"

staged="$(mktemp -d)"
trap 'rm -rf "$staged"' EXIT
install -D -m 755 "$binary" "$staged/bin/onefold"
"${STRIP:-strip}" "$staged/bin/onefold"
if [[ -n $library ]]; then
    install -D -m 755 "$library" "$staged/lib/onefold/libonefold_hint.so"
    install -D -m 644 hint/include/onefold_hint.h "$staged/include/onefold_hint.h"
fi
install -D -m 644 data/udev/60-onefold.rules "$staged/lib/udev/rules.d/60-onefold.rules"
mkdir -p "$staged/lib/systemd/system"
sed "s|@bindir@|$prefix/bin|" 'data/systemd/onefold@.service' >"$staged/lib/systemd/system/onefold@.service"
for text in README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT docs/operating.md docs/recipes.md; do
    install -D -m 644 "$text" "$staged/share/doc/onefold/$(basename "$text")"
done
# What a program for other processors is run by; none for one of this machine.
read -ra runner <<<"${RUNNER:-}"
"${runner[@]}" "$binary" manual docs "$staged/share"
find "$staged/share/man" -name '*.[17]' -exec gzip -9n {} +
list="$(find "$staged" -type f -printf '%P\n' | sort)"
mkdir -p "$staged/$(dirname "$INSTALLED")"
printf '%s\n' "$list" >"$staged/$INSTALLED"

# What an older version had, and this one has not, goes.
if [[ -f $place/$INSTALLED ]]; then
    comm -23 <(sort "$place/$INSTALLED") "$staged/$INSTALLED" | while read -r old; do rm -f "$place/$old"; done
fi
# Each file is replaced at once: a server that runs keeps the program that it began with.
while read -r file; do
    mkdir -p "$place/$(dirname "$file")"
    cp --preserve=mode "$staged/$file" "$place/$file.new"
    mv -f "$place/$file.new" "$place/$file"
done < <(cat "$staged/$INSTALLED" && echo "$INSTALLED")
# A program for other processors cannot be asked.
version="$("$place/bin/onefold" --version 2>/dev/null || echo onefold)"
say "installed below $place: $version, $(wc -l <"$place/$INSTALLED") files"
if [[ -z $root ]] && am_root && command -v udevadm >/dev/null 2>&1; then
    udevadm control --reload 2>/dev/null || warn "udev does not run, so /dev/disk/by-id has no names of volumes"
fi
