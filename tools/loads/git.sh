#!/usr/bin/env bash
# A source repository: this one cloned, older states checked out, commits on a branch, a merge, and collections of garbage.
# usage: git.sh DIRECTORY [CACHE]
# packages: git
# shellcheck source-path=SCRIPTDIR
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
source "$here/load.sh"

COMMITS=60

work() {
    local n
    export GIT_AUTHOR_DATE="2026-01-01T00:00:00Z" GIT_COMMITTER_DATE="2026-01-01T00:00:00Z"
    git config --global user.name load
    git config --global user.email load@example.org
    git config --global safe.directory '*'
    # Small repositories are not repacked by themselves during the work.
    git config --global gc.auto 0
    git clone --quiet --no-local --single-branch "$(git -C "$here" rev-parse --show-toplevel)" clone
    cd clone
    forget
    git branch start
    for n in 20 40 80 10; do git checkout --quiet --detach "start~$n"; done
    git checkout --quiet -b work start~10
    for n in $(seq $COMMITS); do
        words "$n" 400 >>"notes$((n % 7)).md"
        sed -i "${n}s/\$/ $n/" ARCHITECTURE.md
        git add --all
        git commit --quiet --message "Change $n"
        if ((n % 20 == 0)); then
            forget
            git checkout --quiet start
            git checkout --quiet work
        fi
    done
    git merge --quiet --strategy-option ours --message Merge start
    forget
    git gc --quiet
    git clone --quiet --no-local . ../second
    git repack --quiet -a -d -f --window=5
}

run_load "$@"
