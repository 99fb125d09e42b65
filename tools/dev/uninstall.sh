#!/usr/bin/env bash
# Remove what ./dev install has put on this machine.
#
# usage: ./dev uninstall [--prefix DIRECTORY] [--root DIRECTORY]
#
#   --prefix DIRECTORY   as of ./dev install (default: /usr/local)
#   --root DIRECTORY     as of ./dev install (default: /)
#
# Volumes are not touched. It refuses while a volume is attached: nothing could detach it afterwards.
set -euo pipefail
source tools/dev/lib.sh
help_if_asked "$0" "$@"

prefix=/usr/local root=''
while [[ $# -gt 0 ]]; do
    case "$1" in
    --prefix) prefix="${2:?--prefix needs a directory}" && shift 2 ;;
    --root) root="${2:?--root needs a directory}" && shift 2 ;;
    *) misused "uninstall: unknown argument '$1'; see ./dev uninstall --help" ;;
    esac
done
place="$root$prefix"
[[ -f $place/$INSTALLED ]] || die "uninstall: nothing was installed below $place by ./dev install"
[[ -w $place/share/onefold ]] || die "uninstall: cannot write to $place; run it again with sudo"
if [[ -z $root ]]; then
    attached="$("$place/bin/onefold" list --json | python3 -c 'import json, sys
print("\n".join(volume["path"] for volume in json.load(sys.stdin)["volumes"]))')"
    [[ -z $attached ]] || die "uninstall: these volumes are attached; detach them first (onefold detach VOLUME):"$'\n'"$attached"
fi

# removed FILE: removes it, and the directories that are empty then.
removed() {
    rm -f "$place/$1"
    local directory
    directory="$(dirname "$1")"
    while [[ $directory != . ]] && rmdir "$place/$directory" 2>/dev/null; do directory="$(dirname "$directory")"; done
}
files="$(wc -l <"$place/$INSTALLED")"
while read -r file; do removed "$file"; done < <(cat "$place/$INSTALLED")
removed "$INSTALLED"
say "removed $files files below $place"
