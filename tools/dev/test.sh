#!/usr/bin/env bash
# Run everything that CI runs; the last line counts the results.
#
# usage: ./dev test [--crash-minutes N] [--only STAGE]...
#
# Stages, in order: fmt, clippy, fuzz, doc, shell, deny, bpf, tests, made, crash, hostile, kill9, cuts. `fuzz` checks that the targets of
# ./dev fuzz compile; `bpf` that the observer's object was made of its sources; `tests` are all tests of cargo: unit, property, end to
# end, style; `made` are the observer's with an object that the clang of this machine makes; crash, hostile, kill9 and cuts are short runs
# of those commands.
# Warnings of the compiler, lints, formatting and shellcheck's warnings are errors only on the versions that .ci/toolchain names;
# on others they are shown and counted, because new versions have new rules.
# Each line `test result:` of cargo is counted; a stage that is no cargo test counts as one. A test that cannot run here says
# `SKIPPED name: reason` on stderr and is counted as skipped. With CI=true every skip is a failure, except that of cargo-deny, and of the
# tests that .ci/may-skip names.
# The last line reads `N passed, N failed, N skipped`; the exit code is 1 if anything failed.
# The logs of the stages are kept in target/dev-test/.
set -euo pipefail
source tools/dev/lib.sh
help_if_asked "$0" "$@"

crash_minutes=2
only=()
while [[ $# -gt 0 ]]; do
    case "$1" in
    --crash-minutes) crash_minutes="${2:?--crash-minutes needs a number}" && shift 2 ;;
    --only) only+=("${2:?--only needs a stage}") && shift 2 ;;
    *) misused "test: unknown argument '$1'; see ./dev test --help" ;;
    esac
done

bash tools/dev/setup.sh test
# The engine of tools/sql comes by pip, which not every machine has: without it, one test is skipped.
timeout 180 bash tools/dev/sql.sh --setup >/dev/null 2>&1 || say "setup: pip installed no engine for tools/sql"
command -v cargo >/dev/null 2>&1 || export PATH="$HOME/.cargo/bin:$PATH"

# What is tried with optimized binaries needs their speed, not the last of it.
export ONEFOLD_PROFILE=quick

passed=0 failed=0 skipped=0
logs="$(target_dir)/dev-test"
mkdir -p "$logs"
started=$SECONDS

wanted() {
    [[ ${#only[@]} -eq 0 ]] && return 0
    local name
    for name in "${only[@]}"; do [[ $name == "$1" ]] && return 0; done
    return 1
}

finish() { # NAME SECONDS VERDICT
    printf '   %-8s %4d s  %s\n' "$1" "$2" "$3"
}

show_log() {
    printf -- '---- %s, the end of %s\n' "$1" "$logs/$1.log"
    tail -n 200 "$logs/$1.log"
    # Tests that failed earlier than the end, and their messages.
    grep -hE -A 2 '^test .* \.\.\. FAILED$|panicked at ' "$logs/$1.log" || true
    printf -- '----\n'
}

skip_stage() { # NAME REASON [allowed]
    if [[ ${CI:-} == true && ${3:-} != allowed ]]; then
        finish "$1" 0 "FAILED: skipped ($2), and in CI nothing may be"
        failed=$((failed + 1))
    else
        finish "$1" 0 "SKIPPED: $2"
        skipped=$((skipped + 1))
    fi
}

# stage NAME COMMAND...: runs a stage that counts as one.
stage() {
    local name="$1" began=$SECONDS
    shift
    wanted "$name" || return 0
    if "$@" >"$logs/$name.log" 2>&1; then
        passed=$((passed + 1))
        finish "$name" $((SECONDS - began)) ok
    else
        failed=$((failed + 1))
        finish "$name" $((SECONDS - began)) FAILED
        show_log "$name"
    fi
}

# lint_stage NAME TOOL VERSION COMMAND...: runs a stage. The command has lint_errors in its environment: "yes" if warnings are errors.
# Otherwise it passes if it runs, and its warnings are counted.
lint_stage() {
    local name="$1" tool="$2" version="$3" began=$SECONDS warnings
    shift 3
    wanted "$name" || return 0
    if is_of_ci "$tool" "$version"; then
        lint_errors=yes stage "$name" "$@"
    elif lint_errors='' "$@" >"$logs/$name.log" 2>&1; then
        passed=$((passed + 1))
        warnings="$(warnings_in "$logs/$name.log")"
        finish "$name" $((SECONDS - began)) "ok, $warnings warnings on $tool $version, errors on $(named_for_ci "$tool") only"
        [[ $warnings -eq 0 ]] || show_log "$name"
    else
        failed=$((failed + 1))
        finish "$name" $((SECONDS - began)) FAILED
        show_log "$name"
    fi
}

# Counts what rustc, clippy and rustdoc print for each warning, without their sums; what rustfmt prints for each place; what shellcheck
# prints for each.
warnings_in() { # LOG
    grep -E '^warning|^Diff in |^In .* line [0-9]+:$' "$1" | grep -cvE '^warning: `.*` \(.*\) generated [0-9]+ warning' || true
}

# Whether CI lets a test be skipped: by what it said.
may_skip() { # SKIPPED NAME: REASON
    local name="${1#SKIPPED }"
    grep -q "^${name%%:*} " .ci/may-skip
}

# cargo_tests NAME ARGUMENTS...: counts each test.
cargo_tests() {
    local name="$1" began=$SECONDS code=0
    shift
    wanted "$name" || return 0
    # With --show-output, the output of a passing test (SKIPPED) is in the log.
    cargo test --locked --no-fail-fast "$@" -- --show-output >"$logs/$name.log" 2>&1 || code=$?
    local ok bad ignored said
    read -r ok bad ignored < <(awk '/^test result: / { ok += $4; bad += $6; ignored += $8 }
        END { print ok + 0, bad + 0, ignored + 0 }' "$logs/$name.log")
    mapfile -t said < <(grep -oE 'SKIPPED [A-Za-z0-9_:-]+: .*' "$logs/$name.log" | sort -u)
    local gone=${#said[@]}
    [[ $gone -gt 0 ]] && printf '   %s\n' "${said[@]}"
    ok=$((ok - gone))
    # A test program that did not compile or died has no result line.
    [[ $code -ne 0 && $bad -eq 0 ]] && bad=1
    if [[ ${CI:-} == true ]]; then
        local one
        for one in "${said[@]}"; do
            if may_skip "$one"; then skipped=$((skipped + 1)); else bad=$((bad + 1)); fi
        done
    else
        skipped=$((skipped + gone))
    fi
    passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + ignored))
    finish "$name" $((SECONDS - began)) "$ok passed, $bad failed, $((ignored + gone)) skipped"
    [[ $bad -gt 0 ]] && show_log "$name"
    return 0
}

# A difference in format is not an error on other versions; a file that cannot be read is.
formatting() { # ARGUMENTS...
    cargo fmt "$@" --check && return 0
    [[ -z $lint_errors ]] && ! cargo fmt "$@" --check 2>&1 >/dev/null | grep -q '^error'
}

lints() { # ARGUMENTS...
    cargo clippy "$@" --locked -- "${as_lints[@]}"
}

documentation() {
    RUSTDOCFLAGS="${as_lints[*]}" cargo doc --workspace --no-deps --locked
}

# The fuzz targets are a workspace of their own, and without the fuzzer's runtime no C++ compiler is needed.
fuzz_targets() {
    formatting --manifest-path fuzz/Cargo.toml &&
        lints --manifest-path fuzz/Cargo.toml --no-default-features --target-dir "$(target_dir)"
}

shell_scripts() {
    local code=0
    shellcheck -x -S warning dev .ci/run tools/dev/*.sh tools/loads/*.sh || code=$?
    # Exit code 1 means that it reports something; a higher one that it could not check.
    [[ $code -eq 0 || ($code -eq 1 && -z $lint_errors) ]]
}

rust="$(rust_version)"
as_lints=(--cap-lints warn)
is_of_ci rust "$rust" && as_lints=(-D warnings)

say "stages:"
lint_stage fmt rust "$rust" formatting --all
lint_stage clippy rust "$rust" lints --workspace --all-targets
lint_stage fuzz rust "$rust" fuzz_targets
lint_stage doc rust "$rust" documentation
lint_stage shell shellcheck "$(shellcheck --version 2>/dev/null | awk '/^version:/ { print $2 }')" shell_scripts
if wanted deny; then
    if cargo deny --version >/dev/null 2>&1; then
        stage deny cargo deny --offline check bans licenses sources
    else
        skip_stage deny "cargo-deny is not installed (the licences are checked by the style tests all the same)" allowed
    fi
fi
stage bpf bash tools/dev/bpf.sh --check
cargo_tests tests --workspace
if wanted made; then
    if ! { have clang && have llvm-strip && have libbpf-dev; }; then
        skip_stage made "clang, llvm or libbpf-dev is not installed (the committed object is tested all the same)" allowed
    elif ONEFOLD_BPF_OBJECT="$(target_dir)/bpf/observe.bpf.o" && bash tools/dev/bpf.sh --into "$ONEFOLD_BPF_OBJECT"; then
        export ONEFOLD_BPF_OBJECT
        cargo_tests made -p onefold-observer --features made-object
    else
        failed=$((failed + 1))
        finish made 0 "FAILED: the BPF program does not compile"
    fi
fi
# Each mode has a third of the time, and so has the change between modes.
crash_stage() {
    local mode minutes
    minutes="$(awk -v minutes="$crash_minutes" 'BEGIN { print minutes / 3 }')"
    for mode in ordered log any; do
        cargo run --profile quick --locked --quiet -p onefold-sim -- crash --commit-mode "$mode" --minutes "$minutes" || return 1
    done
}
stage crash crash_stage
stage hostile bash tools/dev/hostile.sh --images 100

# blocks_stage NAME COMMAND...: runs a stage that needs FUSE and loop devices.
blocks_stage() {
    local reason
    wanted "$1" || return 0
    if reason="$(blocks_unavailable)"; then
        skip_stage "$1" "$reason"
    else
        stage "$@"
    fi
}
blocks_stage kill9 bash tools/dev/kill9.sh --rounds 4
blocks_stage cuts bash tools/dev/cuts.sh --rounds 25

say "all stages: $((SECONDS - started)) s"
say "$passed passed, $failed failed, $skipped skipped"
[[ $failed -eq 0 ]]
