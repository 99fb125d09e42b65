#!/usr/bin/env bash
# Make packages of Onefold: .deb and .rpm.
#
# usage: ./dev package [--arch amd64|arm64|all] [--out DIRECTORY] [--binary FILE] [deb] [rpm]
#
#   --arch ARCH       the processors that it is for (default: those of this machine), or all; for others it uses Debian's cross compiler
#   --out DIRECTORY   where the packages go (default: target/packages)
#   --binary FILE     package this program, which is for these processors, instead of building one; then nothing is built
#   deb, rpm          which of the two (default: both)
#
# A package has what ./dev install puts below /usr. When it is removed, the units of its volumes are stopped; it refuses while other volumes
# are attached, and leaves volumes and /etc/onefold alone.
set -euo pipefail
source tools/dev/lib.sh
help_if_asked "$0" "$@"

here="$(dpkg --print-architecture 2>/dev/null || uname -m)"
case "$here" in x86_64) here=amd64 ;; aarch64) here=arm64 ;; esac
arch="$here" out="$(target_dir)/packages" binary='' forms=()
while [[ $# -gt 0 ]]; do
    case "$1" in
    --arch) arch="${2:?--arch needs a name}" && shift 2 ;;
    --out) out="${2:?--out needs a directory}" && shift 2 ;;
    --binary) binary="${2:?--binary needs a file}" && shift 2 ;;
    deb | rpm) forms+=("$1") && shift ;;
    *) misused "package: unknown argument '$1'; see ./dev package --help" ;;
    esac
done
if [[ $arch == all ]]; then
    [[ -z $binary ]] || misused "package: --binary $binary is for one kind of processors; --arch all is for two"
    for one in amd64 arm64; do bash tools/dev/package.sh --arch "$one" --out "$out" "${forms[@]}"; done
    exit
fi
case "$arch" in
amd64) triple=x86_64-unknown-linux-gnu gnu=x86_64-linux-gnu rpm_arch=x86_64 emulator=qemu-x86_64 machine=62 ;;
arm64) triple=aarch64-unknown-linux-gnu gnu=aarch64-linux-gnu rpm_arch=aarch64 emulator=qemu-aarch64 machine=183 ;;
*) misused "package: --arch $arch: the architectures are amd64 and arm64, or all" ;;
esac
if [[ -n $binary ]]; then
    [[ -x $binary ]] || misused "package: --binary $binary: there is no such program"
    [[ $(od -An -tu2 -j18 -N2 "$binary" | tr -d ' ') == "$machine" ]] ||
        misused "package: --binary $binary is not for $arch; --arch says for which it is"
else
    bash tools/dev/setup.sh build >/dev/null
fi
[[ ${#forms[@]} -gt 0 ]] || forms=(deb rpm)
need dpkg-shlibdeps strip
for form in "${forms[@]}"; do [[ $form == rpm ]] && need rpmbuild; done

# Makes Rust's library and a C compiler for the other architecture available.
need_cross() {
    [[ -d $(rustc --print target-libdir --target "$triple" 2>/dev/null) ]] || {
        if command -v rustup >/dev/null 2>&1; then
            rustup target add "$triple"
        else
            am_root || die "package: Rust's library for $arch is missing; run once as root"
            dpkg --add-architecture "$arch"
            apt_updated=
            apt_install "libstd-rust-dev:$arch"
        fi
    }
    command -v "$gnu-gcc" >/dev/null 2>&1 || apt_install "gcc-$gnu" "libc6-dev-$arch-cross"
}

version="$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)"
# What is not released sorts before the release, and by its day.
revision="$(git log -1 --format=%cd.%h --date=format:%Y%m%d 2>/dev/null || date -u +%Y%m%d)"
# `onefold version` says it, too.
export ONEFOLD_VERSION="$version~$revision"

strip='strip'
# By which a program of the architecture can be run here: it makes its own manual pages.
runner=()
if [[ $arch != "$here" ]]; then
    strip="$gnu-strip"
    [[ -n $binary ]] || need_cross
    need "$gnu-strip" "$emulator"
    compgen -G "/usr/$gnu/lib/ld-linux*" >/dev/null || apt_install "libc6-$arch-cross" "libgcc-s1-$arch-cross"
    runner=("$emulator" -L "/usr/$gnu")
fi
if [[ -n $binary ]]; then
    :
elif [[ $arch == "$here" ]]; then
    step "Build for $arch"
    build_onefold
    binary="$ONEFOLD"
else
    step "Build for $arch"
    variable="${triple^^}"
    export "CARGO_TARGET_${variable//-/_}_LINKER=$gnu-gcc" "CC_${triple//-/_}=$gnu-gcc" "AR_${triple//-/_}=$gnu-ar"
    cargo build --profile "$profile" --locked --quiet -p onefold --target "$triple"
    binary="$(target_dir)/$triple/$profile/onefold"
fi

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
tree="$work/tree"
mkdir -p "$tree" "$out"
RUNNER="${runner[*]}" STRIP="$strip" bash tools/dev/install.sh --prefix /usr --root "$tree" --binary "$binary" >/dev/null
# The package's own list takes its place.
rm -r "$tree/usr/share/onefold"
documents="$tree/usr/share/doc/onefold"
# Who installs a package has no source, and reads the pages of docs by man.
install -m 644 data/package/README.md "$documents/README.md"
{
    printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: onefold\n\n'
    printf 'Files: *\nCopyright: the Onefold developers\nLicense: MIT or Apache-2.0\n'
    for licence in MIT APACHE; do printf '\nLICENSE-%s\n\n' "$licence" && cat "LICENSE-$licence"; done
} >"$documents/copyright"
rm "$documents"/LICENSE-* "$documents/operating.md" "$documents/recipes.md"
find "$tree" -type d -exec chmod 755 {} +

# The libraries that the program needs, as Debian's packages of this architecture.
mkdir -p "$work/debian"
printf 'Source: onefold\n\nPackage: onefold\nArchitecture: any\n' >"$work/debian/control"
if [[ $arch == "$here" ]]; then
    needed="$(cd "$work" && dpkg-shlibdeps -O --ignore-missing-info "$tree/usr/bin/onefold" 2>/dev/null | sed -n 's/^shlibs:Depends=//p')"
else
    # The cross compiler's library is another package than that of the architecture.
    needed="libc6 (>= $(grep -ao 'GLIBC_2\.[0-9]*' "$tree/usr/bin/onefold" | sort -Vu | tail -n 1 | cut -d_ -f2)), libgcc-s1"
fi
summary='deduplicating block device for flash'
description="A file system, a database or a virtual machine writes to it as to any disk; each
distinct block of 4 KiB is written to the flash once. Runs in user space, as a
loop device over FUSE or as an NBD server.
Not released yet: do not keep the only copy of any data on it. Linux 6.9 or
newer is needed for a block device that outlives a kill of its server.
/usr/share/doc/onefold/README.md leads from nothing to a file system that is
mounted at boot."

make_deb() {
    mkdir -p "$tree/DEBIAN"
    {
        printf 'Package: onefold\nVersion: %s~%s\nArchitecture: %s\n' "$version" "$revision" "$arch"
        printf 'Maintainer: the Onefold developers <onefold@example.invalid>\nSection: admin\nPriority: optional\n'
        printf 'Installed-Size: %s\nDepends: %s\n' "$(du -sk "$tree/usr" | cut -f1)" "${needed:-libc6}"
        printf 'Description: %s\n' "$summary"
        printf '%s\n' "$description" | sed 's/^/ /'
    } >"$tree/DEBIAN/control"
    local script
    for script in postinst prerm postrm; do install -m 755 "data/package/$script" "$tree/DEBIAN/$script"; done
    local package="$out/onefold_$version~${revision}_$arch.deb"
    dpkg-deb --root-owner-group --build "$tree" "$package" >/dev/null
    rm -r "$tree/DEBIAN"
    say "$package"
}

make_rpm() {
    # The scripts are Debian's, with the words by which dpkg calls them. $1 is the number of versions that are there afterwards.
    {
        printf 'Name: onefold\nVersion: %s\nRelease: 0.%s\nSummary: %s\n' "$version" "$revision" "$summary"
        printf 'License: MIT OR Apache-2.0\nBuildArch: %s\nAutoReqProv: no\nRequires: glibc\n' "$rpm_arch"
        printf '%%description\n%s\n' "$description"
        printf '%%install\ncp -a %s/. %%{buildroot}\n%%files\n' "$tree"
        (cd "$tree" && find . -type f -printf '/%P\n')
        printf "%%post\n[ \"\$1\" = 2 ] && set -- configure before || set -- configure\n" && tail -n +2 data/package/postinst
        printf "%%preun\n[ \"\$1\" = 0 ] || exit 0\nset -- remove\n" && tail -n +2 data/package/prerm
        printf "%%postun\n[ \"\$1\" = 0 ] || exit 0\nset -- remove\n" && tail -n +2 data/package/postrm
    } >"$work/onefold.spec"
    rpmbuild --quiet -bb --target "$rpm_arch" --define "_topdir $work/rpm" --define "_rpmdir $out" \
        --define '_rpmfilename %{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}.rpm' \
        --define '__strip /bin/true' --define '__os_install_post %{nil}' --define '_build_id_links none' "$work/onefold.spec"
    say "$out/onefold-$version-0.$revision.$rpm_arch.rpm"
}

for form in "${forms[@]}"; do "make_$form"; done
