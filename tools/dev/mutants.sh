#!/usr/bin/env bash
# Break each rule in turn, on a scratch copy, and see whether the crash explorer notices.
#
# usage: ./dev mutants [--minutes N] [--seed N] [--no-baseline] [NAME]...
#
#   --minutes N     the explorer's time for each mutant (default 2); its build is not counted
#   --no-baseline   do not explore the unchanged tree first
#   NAME            some of them; default: all
#
# The mutants are the patches in sim/mutants/, at least two for each rule of docs/ordering.md and for A5, one of them conditional, and those
# in sim/mutants/log/ (NAME: log/...), which are hunted in the log's mode. Ends with 1 where one survives, or does not fit the code any more.
set -euo pipefail
source tools/dev/lib.sh
help_if_asked "$0" "$@"

bash tools/dev/setup.sh build
need git patch
exec cargo run --quiet --release --locked -p onefold-sim -- mutants "$@"
