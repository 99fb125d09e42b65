#!/usr/bin/env bash
# Break the engine, on a scratch copy, and see whether the crash explorer and the tests notice.
#
# usage: ./dev mutants [--minutes N] [--seed N] [--jobs N] [--no-baseline] [NAME]...
#        ./dev mutants --random N [--seed S] [--minutes N] [--jobs N] [--only ID]... [--kit] [--list] [--anew] [--least P]
#             [--no-baseline]
#
# Named mutants: the patches in sim/mutants/, at least two for each rule of docs/ordering.md and for A5, one of them conditional, and those in
# sim/mutants/log/ (NAME: log/...), which are hunted in the log's mode. Ends with 1 where one survives, or does not fit the code any more.
#
#   --minutes N     the explorer's time for each mutant (default 2); its build is not counted
#   --jobs N        how many at a time, each with a copy and a target folder of its own (default 2)
#   --no-baseline   do not explore the unchanged tree first
#   NAME            some of them; default: all
#
# --random: mutants that nobody chose, drawn from all that cargo-mutants lists for engine/src and from those that tools/mutants/ finds besides:
# numbers off by one, bounds, terms dropped, statements deleted, branches swapped. Each is tried by the engine's tests, then by exploration in the
# mode concerned, until one notices; one that hangs is noticed. A table at the end has who caught how many, and the
# survivors. Results are kept in target/mutants/drawn/results.tsv: a run that was interrupted, started again, goes on where it was.
#
#   --random N      how many that build
#   --seed S        of the draw (default 1); the same tree and seed draw the same mutants
#   --minutes N     exploration of each that the engine's tests let pass (default 1)
#   --jobs N        how many at a time, each with a copy and a target folder of its own (default 2)
#   --only ID       this one, and not a draw; it is tried though it is explained, or was tried before with other tests
#   --kit           try those that both let pass by the kit's own tests, too, which take minutes
#   --list          print the draw, and try none
#   --anew          forget what is known from earlier runs
#   --least P       end with 1 where fewer percent are caught (default 95), not counting those that sim/mutants/equivalent.tsv explains
#   --no-baseline   do not explore the unchanged tree first; its tests run all the same
set -euo pipefail
source tools/dev/lib.sh
help_if_asked "$0" "$@"

# The version whose list a seed draws from.
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
