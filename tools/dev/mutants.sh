#!/usr/bin/env bash
# Break each rule in turn, on a scratch copy, and see whether the crash explorer notices.
#
# usage: ./dev mutants [--minutes N] [--seed N] [--list] [NAME]...
#
#   --minutes N   the explorer's time for each mutant (default 2); its build is not counted
#   NAME          some of them; default: all
#
# The mutants are in tools/mutants/, at least two for each rule of docs/ordering.md and for A5, one of them conditional. Ends with 1 where one
# survives, or does not fit the code any more.
set -euo pipefail
source tools/dev/lib.sh
help_if_asked "$0" "$@"

bash tools/dev/setup.sh build
need python3 git
exec python3 tools/kit/mutants.py --target "$(target_dir)/mutants" "$@"
