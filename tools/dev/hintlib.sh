#!/usr/bin/env bash
# Run the test suites of coreutils and SQLite with the hint library before each program, and compare the results.
#
# usage: ./dev hintlib [--suite coreutils|sqlite]... [--state takes|gone|slow]... [--dir DIRECTORY]
#
#   --suite NAME      this suite alone (default: both)
#   --state STATE     this state of the server alone (default: all three)
#   --dir DIRECTORY   the place of sources and builds (default: target/hintlib)
#
# Debian's sources are downloaded by apt and built once. Each suite runs without the library, and then in each state: the server takes
# every hint, there is no server, or the server never answers. Every test has to have the same result. A test with another one runs again,
# alone, up to three times both ways; it counts as different where no result that it has with the library occurs without it. It takes an
# hour or more. Started by root, the suites run as the user nobody, since SQLite's does not run as root.
set -euo pipefail
source tools/dev/lib.sh
help_if_asked "$0" "$@"

suites=() states=() place="$(target_dir)/hintlib"
while [[ $# -gt 0 ]]; do
    case "$1" in
    --suite) suites+=("${2:?--suite needs a name}") && shift 2 ;;
    --state) states+=("${2:?--state needs a name}") && shift 2 ;;
    --dir) place="${2:?--dir needs a directory}" && shift 2 ;;
    *) misused "hintlib: unknown argument '$1'; see ./dev hintlib --help" ;;
    esac
done
[[ ${#suites[@]} -gt 0 ]] || suites=(coreutils sqlite)
[[ ${#states[@]} -gt 0 ]] || states=(takes gone slow)
for suite in "${suites[@]}"; do
    [[ $suite == coreutils || $suite == sqlite ]] || misused "hintlib: there is no suite '$suite'; they are coreutils and sqlite"
done
for state in "${states[@]}"; do
    [[ $state == takes || $state == gone || $state == slow ]] || misused "hintlib: no state '$state'; they are takes, gone and slow"
done

bash tools/dev/setup.sh build >/dev/null
need python3 cc
umask 022
mkdir -p "$place"
place="$(realpath "$place")"
results="$place/results"
mkdir -p "$results"
cargo build --profile "$profile" --locked --quiet -p onefold-hint
library="$(binaries)/libonefold_hint.so"
[[ -f $library ]] || die "hintlib: the build left no library at $library"
server_program="$PWD/tools/kit/hint_server.py"

# sources PACKAGE: downloads what Debian's package is built of, and unpacks its original source into $place/PACKAGE.
sources() {
    local package="$1" lists="$place/apt/lists" parts="$place/apt/parts" archive
    [[ -d $place/$package ]] && return 0
    mkdir -p "$lists/partial" "$parts" "$place/apt/$package"
    printf 'deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n' "$(debian_mirror)" \
        "$(. /etc/os-release && echo "$VERSION_CODENAME")" >"$parts/source.list"
    local options=(-qq -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$parts" -o "Dir::State::lists=$lists"
        -o "Dir::Cache=$place/apt" -o APT::Sandbox::User=root)
    apt-get "${options[@]}" update || die "hintlib: apt cannot read the lists of sources"
    (cd "$place/apt/$package" && apt-get "${options[@]}" source --download-only "$package") || die "hintlib: apt has no source of $package"
    archive="$(ls "$place/apt/$package/$package"_*.orig.tar.*z)"
    mkdir -p "$place/$package.new"
    tar xf "$archive" -C "$place/$package.new" --strip-components=1
    mv "$place/$package.new" "$place/$package"
}

# build PACKAGE CONFIGURE... -- MAKE...: once.
build() {
    local package="$1" configure=()
    shift
    while [[ $1 != -- ]]; do configure+=("$1") && shift; done
    shift
    [[ -e $place/$package/built ]] && return 0
    step "Build $package"
    (cd "$place/$package" && FORCE_UNSAFE_CONFIGURE=1 ./configure -q "${configure[@]}" && make -s "$@" && touch built &&
        if am_root; then chown -R nobody:nogroup .; fi) \
        >"$results/$package-build.log" 2>&1 || die "hintlib: $package does not build; see $results/$package-build.log"
}

as_user=()
if am_root; then
    as_user=(setpriv --reuid nobody --regid nogroup --clear-groups)
    "${as_user[@]}" test -r "$library" || die "hintlib: the user nobody cannot read $library; give another CARGO_TARGET_DIR"
fi

server='' run=''
end_server() {
    [[ -z $server ]] || { kill "$server" && wait "$server"; } 2>/dev/null || true
    server=''
}
trap end_server EXIT

# begin_server STATE: makes a run directory, with the server that belongs to the state.
begin_server() {
    run="$("${as_user[@]}" mktemp -d)"
    [[ $1 == gone ]] && return 0
    coproc LISTENING { exec python3 "$server_program" "$run/volume.control" "$1" "$run/count"; }
    server="$LISTENING_PID"
    local ready
    read -r ready <&"${LISTENING[0]}" && [[ $ready == ready ]] || die "hintlib: the server of the test does not begin"
    ! am_root || chown nobody "$run/volume.control"
}

# with_state STATE COMMAND...: runs a command with the library before it, or without it in the state 'alone'.
with_state() {
    local state="$1"
    shift
    if [[ $state == alone ]]; then
        "${as_user[@]}" "$@"
    else
        # Where hints are taken, a busy machine is no reason to end them.
        local patience=5
        [[ $state != takes ]] || patience=1000
        "${as_user[@]}" env LD_PRELOAD="$library" ONEFOLD_RUN_DIR="$run" ONEFOLD_HINT=nodedup,prefetch \
            ONEFOLD_HINT_PATIENCE_MS="$patience" "$@"
    fi
}

# Each prints "TEST RESULT" of what has run, sorted. Arguments: the state, and tests to run alone.
coreutils_results() {
    local state="$1"
    shift
    cd "$place/coreutils"
    find tests -name '*.trs' -delete
    local only=()
    [[ $# -eq 0 ]] || only=("TESTS=$*")
    with_state "$state" make -k check SUBDIRS=. RUN_EXPENSIVE_TESTS=no "${only[@]}" >"$results/coreutils-$state.log" 2>&1 || true
    local trs
    find tests -name '*.trs' | sort | while read -r trs; do
        echo "${trs%.trs} $(sed -n 's/^:global-test-result: //p' "$trs")"
    done
}

sqlite_results() {
    local state="$1" work
    shift
    work="$("${as_user[@]}" mktemp -d)"
    cd "$work"
    local scripts=("$place/sqlite3/test/veryquick.test")
    [[ $# -eq 0 ]] || scripts=("$@")
    with_state "$state" "$place/sqlite3/testfixture" "${scripts[@]}" >"$results/sqlite-$state.log" 2>&1 || true
    rm -rf "$work"
    # Lines such as "select1-1.1... Ok"; what a failed test got follows behind "! NAME".
    grep -aoE '^(! )?[A-Za-z0-9_.,:/()-]+(\.\.\. (Ok|Omitted)| (expected|got): .*)$|^[0-9]+ errors out of [0-9]+ tests' \
        "$results/sqlite-$state.log" | sed 's/\.\.\. / /' | sort
}

# again TEST STATE: prints three results of one test of coreutils, run alone.
again() {
    local count=0
    while ((count++ < 3)); do
        (coreutils_results "$2" "$1.sh" | tail -n 1 | cut -d ' ' -f 2)
    done
}

differences=0
compare() { # SUITE STATE
    local suite="$1" state="$2" changed="$results/$1-$2.diff" test real=()
    if diff "$results/$suite-alone.tsv" "$results/$suite-$state.tsv" >"$changed"; then
        say "$suite, $state: $(wc -l <"$results/$suite-$state.tsv") results, all the same"
        return 0
    fi
    if [[ $suite == coreutils ]]; then
        while read -r test; do
            local alone with
            alone="$(again "$test" alone)" with="$(again "$test" "$state")"
            say "$suite, $state: $test: alone" $alone "and with the library" $with
            # A result that only the library brings.
            [[ -z $(comm -13 <(sort -u <<<"$alone") <(sort -u <<<"$with")) ]] || real+=("$test")
        done < <(sed -n 's/^[<>] \([^ ]*\) .*/\1/p' "$changed" | sort -u)
        if [[ ${#real[@]} -eq 0 ]]; then
            say "$suite, $state: $(wc -l <"$results/$suite-$state.tsv") results, the same when they are run again"
            return 0
        fi
    fi
    differences=1
    say "$suite, $state: results differ; see $changed"
    head -n 20 "$changed"
}

for suite in "${suites[@]}"; do
    if [[ $suite == coreutils ]]; then
        sources coreutils
        build coreutils --
    else
        [[ -e /usr/include/tcl8.6/tcl.h || -e /usr/include/tcl.h ]] || apt_install tcl-dev
        sources sqlite3
        build sqlite3 --enable-fts5 --enable-rtree -- testfixture
    fi
    step "$suite without the library"
    ("${suite}_results" alone) >"$results/$suite-alone.tsv"
    say "$suite: $(wc -l <"$results/$suite-alone.tsv") results"
    for state in "${states[@]}"; do
        step "$suite, $state"
        begin_server "$state"
        ("${suite}_results" "$state") >"$results/$suite-$state.tsv"
        compare "$suite" "$state"
        end_server
        [[ ! -e $run/count ]] || say "$suite, $state: the server was asked $(cat "$run/count") times"
        rm -rf "$run"
    done
done
[[ $differences -eq 0 ]] || die "hintlib: a program behaves otherwise with the library"
