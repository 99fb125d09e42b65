#!/usr/bin/env bash
# Break the engine, on a scratch copy, and check whether the crash explorer and the tests notice.
#
# usage: ./dev mutants [--minutes N] [--seed N] [--jobs N] [--no-baseline] [NAME]...
#        ./dev mutants --random N [--seed S] [--minutes N] [--jobs N] [--only ID]... [--kit] [--list] [--anew] [--least P]
#             [--no-baseline]
#
# Named mutants are the patches in sim/mutants/, at least two for each rule of docs/ordering.md and for A5, one of them conditional, and
# those in sim/mutants/log/ (NAME: log/...), which are tried in the log's mode. Ends with 1 if one survives, or does not fit the code any
# more.
#
#   --minutes N     the explorer's time for each mutant (default 2); its build is not counted
#   --jobs N        the number at a time, each with a copy and a target folder of its own (default 2)
#   --no-baseline   do not explore the unchanged tree first
#   NAME            try only these; default: all
#
# --random: mutants drawn from all those that cargo-mutants lists for engine/src and those that tools/mutants/ finds besides:
# numbers off by one, bounds, terms dropped, statements deleted, branches swapped. Each is tried by the engine's tests, then by exploration
# in the mode concerned, until one notices; one that hangs counts as noticed. A table at the end shows how many each caught, and the
# survivors. Results are kept in target/mutants/drawn/results.tsv: an interrupted run that is started again continues where it was.
#
#   --random N      the number of mutants that build
#   --seed S        the seed of the draw (default 1); the same tree and seed draw the same mutants
#   --minutes N     the exploration of each mutant that passes the engine's tests (default 1)
#   --jobs N        the number at a time, each with a copy and a target folder of its own (default 2)
#   --only ID       try this one instead of a draw, even if it is explained, or was tried before with other tests
#   --kit           try those that pass both also by the kit's own tests, which takes minutes
#   --list          print the draw, and try none
#   --anew          forget the results of earlier runs
#   --least P       end with 1 if a smaller percentage is caught (default 95), not counting those that sim/mutants/equivalent.tsv explains
#   --no-baseline   do not explore the unchanged tree first; its tests run all the same
set -euo pipefail
source tools/dev/lib.sh
help_if_asked "$0" "$@"

# The version from whose list a seed draws.
CARGO_MUTANTS=27.1.0

bash tools/dev/setup.sh build
need git patch
command -v cargo >/dev/null 2>&1 || export PATH="$HOME/.cargo/bin:$PATH"
for i in $(seq $#); do
    [[ ${!i} == --random ]] || continue
    next=$((i + 1))
    [[ ${!next:-} =~ ^[1-9][0-9]*$ ]] || misused "mutants: --random needs a number above 0"
    tools="$(target_dir)/tools"
    export PATH="$tools/bin:$PATH"
    if [[ $(cargo mutants --version 2>/dev/null) != "cargo-mutants $CARGO_MUTANTS" ]]; then
        say "installing cargo-mutants $CARGO_MUTANTS in $tools"
        cargo install --quiet --locked --root "$tools" --version "$CARGO_MUTANTS" cargo-mutants
    fi
done
exec cargo run --quiet --release --locked -p onefold-mutants -- "$@"
