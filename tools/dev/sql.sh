#!/usr/bin/env bash
# Compute the tables of `onefold-lab trace analyze` by SQL, for traces that are larger than memory.
#
# usage: ./dev sql FOLDER... [--by trace|process|stream|file|cgroup] [--memory SIZE] [--threads N] [--dir DIRECTORY]
#                             [--engine ENGINE] [--json]
#        ./dev sql --setup [--engine ENGINE]
#
#   FOLDER             folders of Parquet files, as `onefold-lab trace import` makes them, of a recording as well
#   --by DIVISION      what an application is: a trace (default), a process or a stream
#   --memory SIZE      memory for the tables under way, such as 512M or 4G (default 4G); what exceeds it goes to disk
#   --threads N        the number of threads (default: one for each processor)
#   --dir DIRECTORY    where that disk is, and the tables that are kept meanwhile (default: $TMPDIR or /var/tmp)
#   --engine ENGINE    datafusion (default), or spark, which runs the same statements
#   --json             print JSON
#   --setup            only install what is missing
#
# The statements are tools/sql/*.sql. The engines are Python packages, which are installed below the target folder; Spark also needs Java.
set -euo pipefail
source tools/dev/lib.sh
help_if_asked "$0" "$@"

[[ $# -gt 0 ]] || misused "sql: which folders? See ./dev sql --help"
words=() engine=datafusion setup=
while [[ $# -gt 0 ]]; do
    case "$1" in
    --setup) setup=yes && shift ;;
    --engine) engine="${2:?--engine needs datafusion or spark}" && shift 2 ;;
    *) words+=("$1") && shift ;;
    esac
done
case "$engine" in
datafusion) packages=(datafusion==55.0.0 pyarrow==26.0.1) module=datafusion ;;
spark) packages=(pyspark==4.3.0 pyarrow==26.0.1) module=pyspark ;;
*) misused "sql: --engine $engine: give datafusion or spark" ;;
esac

need python3
python="$(target_dir)/sql/bin/python"
if ! "$python" -c "import $module, pyarrow" 2>/dev/null; then
    step "Installation of ${packages[*]} in $(target_dir)/sql" >&2
    if ! python3 -m venv "$(target_dir)/sql" >/dev/null 2>&1; then
        apt_install python3-venv >&2
        python3 -m venv "$(target_dir)/sql" || die "sql: python3 makes no environment in $(target_dir)/sql"
    fi
    "$python" -m pip install --quiet --disable-pip-version-check "${packages[@]}" >&2 || die "sql: pip could not install ${packages[*]}"
fi
[[ $engine != spark ]] || command -v java >/dev/null 2>&1 || apt_install default-jre-headless >&2
[[ -z $setup ]] || exit 0
exec "$python" tools/sql/analyze.py --engine "$engine" "${words[@]}"
