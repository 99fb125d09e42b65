#!/usr/bin/env bash
# Compare the engine's write steps a second with those of another commit.
#
# usage: ./dev steps COMMIT [--pairs N] [--least RATIO] [--seed N]
#
#   COMMIT          the commit to compare with; it is built in a worktree of its own, below the target folder
#   --pairs N       the number of pairs for each of the four loads (default 6)
#   --least RATIO   end with 1 if the median of a load is below (default 0.97)
#   --seed N        the seed of the first pair (default 1)
#
# The two programs of a pair run at once on the same processor, which the kernel gives to each in turn. So other work on the machine, its
# frequency and its caches are the same for both, and the ratio of their rates by processor time holds still where rates do not: pairs of
# runs in turn have differed by a factor of two. Each pair's ratio of the median rounds is printed.
set -euo pipefail
source tools/dev/lib.sh
help_if_asked "$0" "$@"

commit='' pairs=6 least=0.97 seed=1
while [[ $# -gt 0 ]]; do
    case "$1" in
    --pairs) pairs="${2:?--pairs needs a number}" && shift 2 ;;
    --least) least="${2:?--least needs a number}" && shift 2 ;;
    --seed) seed="${2:?--seed needs a number}" && shift 2 ;;
    -*) misused "steps: unknown option '$1'; see ./dev steps --help" ;;
    *) [[ -z $commit ]] || misused "steps: one commit, not two: $commit, $1"
       commit="$1" && shift ;;
    esac
done
[[ -n $commit ]] || misused "steps: which commit? See ./dev steps --help"
[[ $pairs =~ ^[1-9][0-9]*$ ]] || misused "steps: --pairs $pairs: give a number above 0"
[[ $seed =~ ^[0-9]+$ ]] || misused "steps: --seed $seed: give a number"
[[ $least =~ ^[0-9]+(\.[0-9]+)?$ ]] || misused "steps: --least $least: give a number, such as 0.97"
full="$(git rev-parse --verify --quiet "$commit^{commit}")" || misused "steps: $commit is no commit of this repository"

bash tools/dev/setup.sh build
need git python3 taskset
command -v cargo >/dev/null 2>&1 || export PATH="$HOME/.cargo/bin:$PATH"
target="$(target_dir)"
other="$target/steps/$full"
cleanup() {
    local code=$?
    trap - EXIT
    git worktree remove --force "$other" 2>/dev/null || true
    exit "$code"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

step "Build of $commit"
git worktree prune
[[ -d $other ]] || git worktree add --quiet --detach "$other" "$full"
(cd "$other" && CARGO_TARGET_DIR="$target/steps/built" cargo build --quiet --release --locked -p onefold-sim --bin onefold-sim)
step "Build of this tree"
cargo build --quiet --release --locked -p onefold-sim --bin onefold-sim
python3 tools/bench/steps_against.py "$target/steps/built/release/onefold-sim" "$target/release/onefold-sim" "$pairs" "$seed" "$least"
