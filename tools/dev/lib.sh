# shellcheck shell=bash
# Functions that the scripts of ./dev share: messages, help, the tools they need and how to get them.
# Sourced with the repository's root as the working directory.

RUST_MIN=1.85
# Below the prefix: the list of the files that ./dev install has put there.
# shellcheck disable=SC2034
INSTALLED=share/onefold/installed

say() { printf '%s\n' "$*"; }
step() { printf '\n== %s\n' "$*"; }
warn() { printf 'dev: %s\n' "$*" >&2; }
die() {
    warn "$*"
    exit 1
}
# Ends the script because of a wrong argument: nothing was tried, so nothing has failed.
misused() {
    warn "$*"
    exit 2
}

# Prints the comment block at the beginning of the calling script, as its help.
print_help() {
    sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$1"
}

# help_if_asked "$0" "$@": ends the script with its help if --help is among the options.
help_if_asked() {
    local script="$1" word
    shift
    for word in "$@"; do
        if [[ $word == --help || $word == -h ]]; then
            print_help "$script"
            exit 0
        fi
    done
}

am_root() { [[ $(id -u) -eq 0 ]]; }

# need_root WHAT
need_root() {
    am_root || die "$1 needs root (it mounts and uses loop devices); run it again with sudo"
}

# Prints the Debian package that provides a command, and the command that shows that it is installed.
package_of() {
    case "$1" in
    fio) echo fio ;;
    nbdinfo | nbdcopy | nbdsh) echo libnbd-bin ;;
    python3-libnbd) echo python3-libnbd ;;
    python3) echo python3 ;;
    qemu-io | qemu-img | qemu-nbd) echo qemu-utils ;;
    mkfs.ext4 | e2fsck | debugfs | dumpe2fs | filefrag) echo e2fsprogs ;;
    mkfs.btrfs | btrfs-map-logical) echo btrfs-progs ;;
    mkfs.xfs | xfs_repair) echo xfsprogs ;;
    bpftool) echo bpftool ;;
    mariadbd) echo mariadb-server-core ;;
    mariadb) echo mariadb-client-core ;;
    pg_ctl) echo postgresql ;;
    mkfs.f2fs) echo f2fs-tools ;;
    losetup | mount | blkid | findmnt | fallocate | taskset) echo util-linux ;;
    sfdisk) echo fdisk ;;
    cc) echo build-essential ;;
    clang) echo clang ;;
    llvm-strip) echo llvm ;;
    libbpf-dev) echo libbpf-dev ;;
    pkg-config) echo pkg-config ;;
    debootstrap) echo debootstrap ;;
    qemu-system-x86_64) echo qemu-system-x86 ;;
    dpkg-shlibdeps) echo dpkg-dev ;;
    strip) echo binutils ;;
    aarch64-linux-gnu-strip) echo binutils-aarch64-linux-gnu ;;
    x86_64-linux-gnu-strip) echo binutils-x86-64-linux-gnu ;;
    qemu-aarch64 | qemu-x86_64) echo qemu-user ;;
    rpmbuild) echo rpm ;;
    shellcheck) echo shellcheck ;;
    patch) echo patch ;;
    git) echo git ;;
    zstd) echo zstd ;;
    *) return 1 ;;
    esac
}

have() {
    case "$1" in
    libbpf-dev) [[ -f /usr/include/bpf/bpf_helpers.h ]] ;;
    python3-libnbd) [[ -x /usr/bin/python3 ]] && /usr/bin/python3 -c 'import nbd' 2>/dev/null ;;
    *) command -v "$1" >/dev/null 2>&1 || [[ -x /usr/sbin/$1 || -x /sbin/$1 ]] ;;
    esac
}

apt_updated=
apt_install() {
    command -v apt-get >/dev/null 2>&1 ||
        die "these Debian packages, or what your system calls them, are missing: $*; install them and run this again"
    am_root || die "these packages are missing: $*; run once as root: sudo ./dev setup"
    if [[ -z $apt_updated ]]; then
        apt-get -o DPkg::Lock::Timeout=300 update -qq || warn "apt-get update failed; trying with the lists that are there"
        apt_updated=yes
    fi
    say "installing: $*"
    DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends "$@" >/dev/null ||
        die "apt-get could not install: $*"
}

# need TOOL...: installs what is missing, or prints what to do.
need() {
    local tool packages=()
    for tool in "$@"; do
        have "$tool" || packages+=("$(package_of "$tool")")
    done
    [[ ${#packages[@]} -eq 0 ]] && return 0
    mapfile -t packages < <(printf '%s\n' "${packages[@]}" | sort -u)
    apt_install "${packages[@]}"
    for tool in "$@"; do
        have "$tool" || die "'$tool' is still missing after its package was installed"
    done
}

# Prints the archive from which this machine's apt takes Debian.
debian_mirror() {
    local mirror
    mirror="$(apt-get indextargets --format "\$(ORIGIN) \$(COMPONENT) \$(REPO_URI)" 'Created-By: Packages' |
        awk '$1 == "Debian" && $2 == "main" && $3 !~ /security/ { print $3; exit }')"
    [[ -n $mirror ]] || die "apt-get indextargets names no mirror of Debian's main; run apt-get update"
    say "$mirror"
}

# Makes a folder for a virtual machine, as $work, which goes when the script ends, unless KEEP is not empty.
make_machine_folder() { # COMMAND KEEP
    work="$(mktemp -d "${TMPDIR:-/var/tmp}/onefold-$1.XXXXXX")"
    keep_machine_folder="$2"
    trap leave_machine_folder EXIT
    trap 'exit 130' INT TERM
}
leave_machine_folder() {
    local code=$?
    trap - EXIT
    if [[ -n $keep_machine_folder ]]; then say "left there: $work"; else rm -rf --one-file-system "$work"; fi
    exit "$code"
}

# Makes a Debian 13 with these packages in the folder ROOT below $work.
make_debian() { # COMMAND ROOT PACKAGES
    debootstrap --variant=minbase --include="$3" trixie "$2" "$(debian_mirror)" >"$work/log" 2>&1 ||
        { tail -n 20 "$work/log" && die "$1: debootstrap failed"; }
}

# version_at_least FOUND WANTED
version_at_least() {
    [[ $(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1) == "$2" ]]
}

# named_for_ci TOOL: prints its version in .ci/toolchain.
named_for_ci() { awk -v tool="$1" '$1 == tool { print $2 }' .ci/toolchain; }

# is_of_ci TOOL VERSION: succeeds if it is a release of the version that CI names.
is_of_ci() {
    local named
    named="$(named_for_ci "$1")"
    [[ -n $named && $2 =~ ^${named//./\\.}(\.[0-9]+)?$ ]]
}

rust_version() { { rustc --version 2>/dev/null || true; } | awk '{ print $2 }'; }

# Makes cargo, rustc, clippy and rustfmt available, or prints how to get them. It never runs an installer from the network.
need_rust() {
    if ! command -v cargo >/dev/null 2>&1 && [[ -x $HOME/.cargo/bin/cargo ]]; then
        export PATH="$HOME/.cargo/bin:$PATH"
    fi
    local found candidate
    found="$(rust_version)"
    if [[ -z $found ]] && command -v apt-cache >/dev/null 2>&1; then
        if am_root && [[ -z $apt_updated ]]; then
            apt-get -o DPkg::Lock::Timeout=300 update -qq || true
            apt_updated=yes
        fi
        candidate="$(apt-cache policy rustc 2>/dev/null | awk '/Candidate:/ { print $2 }')"
        if [[ $candidate =~ ^[0-9] ]] && version_at_least "$candidate" "$RUST_MIN"; then
            apt_install cargo rustc rust-clippy rustfmt ca-certificates
            found="$(rust_version)"
        fi
    fi
    if [[ -z $found ]]; then
        die "Rust $RUST_MIN or newer is needed and this system has no package that new: install it with rustup (https://rustup.rs)"
    fi
    version_at_least "$found" "$RUST_MIN" ||
        die "Rust $found is too old, $RUST_MIN or newer is needed; update it with rustup (https://rustup.rs): rustup update stable"
    need cc pkg-config git
}

need_lints() {
    cargo clippy --version >/dev/null 2>&1 || { command -v rustup >/dev/null 2>&1 || apt_install rust-clippy; }
    cargo fmt --version >/dev/null 2>&1 || { command -v rustup >/dev/null 2>&1 || apt_install rustfmt; }
    cargo clippy --version >/dev/null 2>&1 || die "clippy is missing: rustup component add clippy"
    cargo fmt --version >/dev/null 2>&1 || die "rustfmt is missing: rustup component add rustfmt"
}

# Checks whether this machine can mount FUSE and set up loop devices. Prints the reason if it cannot.
blocks_unavailable() {
    if ! am_root; then
        echo "not root"
    elif [[ ! -c /dev/fuse ]]; then
        echo "no /dev/fuse"
    elif [[ ! -c /dev/loop-control ]]; then
        echo "no /dev/loop-control"
    elif ! losetup --find >/dev/null 2>&1; then
        echo "no free loop device"
    else
        return 1
    fi
}

# Ends a command that cannot do without FUSE and loop devices where there are none.
need_blocks() { # COMMAND
    local reason
    if reason="$(blocks_unavailable)"; then
        die "$1: needs root, /dev/fuse and loop devices, and there is: $reason"
    fi
}

# Prints the folder in which cargo puts what it builds.
target_dir() { echo "${CARGO_TARGET_DIR:-$PWD/target}"; }

# The profile of cargo by which binaries are built. `./dev test` sets ONEFOLD_PROFILE to one that builds in half the time.
profile="${ONEFOLD_PROFILE:-release}"

# Prints the folder of the binaries of that profile.
binaries() { echo "$(target_dir)/$profile"; }

# Builds the binary and prints nothing but errors; its path is in $ONEFOLD afterwards.
build_onefold() {
    cargo build --profile "$profile" --locked --quiet -p onefold
    ONEFOLD="$(binaries)/onefold"
    export ONEFOLD
    [[ -x $ONEFOLD ]] || die "the build left no binary at $ONEFOLD"
}

# The same of `onefold-lab`; its path is in $ONEFOLD_LAB.
build_laboratory() {
    cargo build --release --locked --quiet -p onefold-lab
    ONEFOLD_LAB="$(target_dir)/release/onefold-lab"
    export ONEFOLD_LAB
}
