# shellcheck shell=bash
# Shared by the loads: the two ways to call one, and content from a seed.
# A load has a function `work`, which runs its program in the present directory, and may have `prepare`, which makes what the work takes as
# given in $CACHE, unless it is there.

# The programs are Debian's, and say the same in every language.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8

# random SEED BYTES: prints the same bytes each time, which do not compress.
random() {
    head -c "$2" /dev/zero | openssl enc -aes-128-ctr -K "$(printf '%032x' "$1")" -iv 0 2>/dev/null
}

# words SEED COUNT: prints lines of words, the same each time.
words() {
    awk -v seed="$1" -v count="$2" 'BEGIN {
        srand(seed)
        common = "the a to of you on my is are we see at home later ok thanks when where photo call meet tomorrow train lunch work bus" \
            " late soon report table number change figure plan note draft house street river summer winter paper letter answer question"
        n = split(common, word, " ")
        for (i = 1; i <= count; i++) printf "%s%s", word[int(rand() * n) + 1] int(rand() * 7), i % 12 ? " " : ".\n"
        print "."
    }'
}

# save FILE: writes standard input to a file as an application saves it: a new file, synced, renamed over the old one.
save() {
    cat >"$1.new"
    sync "$1.new"
    mv "$1.new" "$1"
}

# photo SEED SIZE FILE: makes a picture, the same each time.
photo() {
    convert -seed "$1" -size "$2" plasma:fractal -attenuate 0.3 -seed "$1" +noise Gaussian -quality 90 "$3"
}

# forget: drops the content of the present directory's files from memory, as it goes when other programs need the memory.
forget() {
    sync -f .
    /usr/bin/python3 - <<'END'
import os

for where, _, names in os.walk("."):
    for name in names:
        path = os.path.join(where, name)
        if os.path.isfile(path) and not os.path.islink(path):
            with open(path, "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
END
}

prepare() { :; }

# run_load NAME.sh --prepare CACHE, or NAME.sh DIRECTORY [CACHE]
run_load() {
    local given="${2:-${TMPDIR:-/var/tmp}/onefold-loads}"
    CACHE="$(realpath -m "$given")/$(basename -s .sh "$0")"
    # Made by another state of the script, it is made anew.
    local prepared
    prepared="$CACHE/prepared-$(cksum <"$0" | cut -d ' ' -f 1)"
    if [[ ! -f $prepared ]]; then
        rm -rf "$CACHE"
        mkdir -p "$CACHE"
        (cd "$CACHE" && prepare)
        touch "$prepared"
    fi
    [[ $1 == --prepare ]] && return 0
    cd "$1" || return
    export HOME="$PWD/home"
    mkdir -p "$HOME"
    work
}
