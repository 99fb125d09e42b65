#!/usr/bin/env bash
# Show that a bare Debian with git and root is enough: run the demo and the tests in a new chroot.
#
# usage: ./dev fresh [--release trixie|bookworm]... [--only demo|test] [--keep] [--dir DIRECTORY]
#
#   --release NAME    trixie (Debian 13) or bookworm (Debian 12, with this machine's Rust bound in, as its own is too old); default: both
#   --only demo|test  run only one of the two
#   --dir DIRECTORY   the folder of the chroots (default: below $TMPDIR or /var/tmp); each needs 12 GiB
#   --keep            keep the chroots
#
# What is cloned is the last commit, not the work tree. The chroot, which is the root of its mount namespace, gets /dev, /proc, /sys and a
# tmpfs at /run, in mount and process namespaces of its own, which end with it. Packages come from the mirror that this machine's own apt
# sources name. Needs root.
set -euo pipefail
source tools/dev/lib.sh
help_if_asked "$0" "$@"

releases=()
commands=(demo test)
keep=
parent="${TMPDIR:-/var/tmp}"
while [[ $# -gt 0 ]]; do
    case "$1" in
    --release) releases+=("${2:?--release needs a name}") && shift 2 ;;
    --only) commands=("${2:?--only needs demo or test}") && shift 2 ;;
    --keep) keep=yes && shift ;;
    --dir) parent="${2:?--dir needs a directory}" && shift 2 ;;
    *) misused "fresh: unknown argument '$1'; see ./dev fresh --help" ;;
    esac
done
for release in "${releases[@]}"; do
    case "$release" in trixie | bookworm) ;; *) misused "fresh: the releases are trixie and bookworm, not '$release'" ;; esac
done
for command in "${commands[@]}"; do
    case "$command" in demo | test) ;; *) misused "fresh: --only takes demo or test, not '$command'" ;; esac
done
[[ -d $parent ]] || misused "fresh: there is no directory '$parent'"
[[ ${#releases[@]} -gt 0 ]] || releases=(trixie bookworm)
need_root "fresh"
bash tools/dev/setup.sh fresh

commit="$(git rev-parse HEAD)"
git diff --quiet HEAD -- || warn "the chroot gets $commit without the changes that are not committed"

mirror="$(debian_mirror)"

root=
cleanup() {
    local code=$?
    trap - EXIT
    if [[ -n $root && -d $root ]]; then
        # The mounts ended with the namespace; --one-file-system protects against one that did not.
        if [[ -n $keep ]]; then say "left there: $root"; else rm -rf --one-file-system "$root"; fi
    fi
    exit "$code"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# The environment variables of this machine that a client of a package registry needs.
registry_environment() {
    env | grep -E '^(CARGO_(HTTP|NET|REGISTRIES|REGISTRY|SOURCE)_|https?_proxy=|HTTPS?_PROXY=|no_proxy=|NO_PROXY=)' || true
    [[ -n ${SSL_CERT_FILE:-} && -f ${SSL_CERT_FILE:-} && -z ${CARGO_HTTP_CAINFO:-} ]] && echo "CARGO_HTTP_CAINFO=/etc/host-certificates.pem"
    echo "CI=${CI:-true}"
    echo "LC_ALL=C.UTF-8"
}

prepare() { # RELEASE
    step "$1: debootstrap, $commit"
    debootstrap --variant=minbase --include=git "$1" "$root" "$mirror" >"$root.log" 2>&1 ||
        { tail -n 20 "$root.log" && die "fresh: debootstrap of $1 failed"; }
    rm -f "$root.log"
    [[ -n ${SSL_CERT_FILE:-} && -f ${SSL_CERT_FILE:-} ]] && cp "$SSL_CERT_FILE" "$root/etc/host-certificates.pem"
    apt-config dump | grep -E '^Acquire::(http|https)::Proxy ' >"$root/etc/apt/apt.conf.d/10host-proxy" || true
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    grep -q "$(hostname)" /etc/hosts && cp /etc/hosts "$root/etc/hosts"
    git clone --quiet --no-hardlinks . "$root/root/onefold"
    git -C "$root/root/onefold" checkout --quiet --detach "$commit"
    if [[ -d ${CARGO_HOME:-$HOME/.cargo}/registry && ! -e $root/root/.cargo ]]; then mkdir -p "$root/root/.cargo"; fi
    [[ -f ${CARGO_HOME:-$HOME/.cargo}/config.toml ]] && cp "${CARGO_HOME:-$HOME/.cargo}/config.toml" "$root/root/.cargo/config.toml"
    return 0
}

# This runs within the new namespaces: mounts, then the chroot.
inside='
set -euo pipefail
root="$1" release="$2" rustup="$3" cargo="$4"
shift 4
# This is a mount of its own, because pivot_root, below, accepts no other.
mount --bind "$root" "$root"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
# Files of the size of a volume should not be written through the chroot disk twice, and /tmp has to be there.
chmod 1777 "$root/tmp" "$root/var/tmp"
path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
if [[ $release == bookworm ]]; then
    mkdir -p "$root/opt/rustup" "$root/opt/cargo-bin"
    mount --bind -o ro "$rustup" "$root/opt/rustup"
    mount --bind -o ro "$cargo/bin" "$root/opt/cargo-bin"
    path="/opt/cargo-bin:$path"
    set -- RUSTUP_HOME=/opt/rustup RUSTUP_AUTO_INSTALL=0 "$@"
fi
# The root of the mount namespace, as on a machine: within a mere chroot no other namespace can be made, and paths in others are resolved
# from outside.
mkdir -p "$root/mnt/outside"
cd "$root"
pivot_root . mnt/outside
exec /usr/sbin/chroot . /bin/sh -c "umount -l /mnt/outside && exec \"\$@\"" sh /usr/bin/env -i HOME=/root "PATH=$path" "$@"
'

failed=0
for release in "${releases[@]}"; do
    root="$(mktemp -d "$parent/onefold-fresh-$release.XXXXXX")"
    chmod 755 "$root"
    prepare "$release"
    mapfile -t environment < <(registry_environment)
    for command in "${commands[@]}"; do
        step "$release: ./dev $command"
        began=$SECONDS
        code=0
        unshare --mount --pid --fork --kill-child --propagation private -- \
            bash -c "$inside" inside "$root" "$release" "${RUSTUP_HOME:-$HOME/.rustup}" "${CARGO_HOME:-$HOME/.cargo}" \
            "${environment[@]}" bash -c "cd /root/onefold && ./dev $command" </dev/null || code=$?
        if [[ $code -eq 0 ]]; then
            say "$release: ./dev $command passed in $((SECONDS - began)) s"
        else
            say "$release: ./dev $command FAILED (exit code $code) after $((SECONDS - began)) s"
            failed=1
        fi
    done
    [[ -n $keep ]] || rm -rf --one-file-system "$root"
done
exit "$failed"
