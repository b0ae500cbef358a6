#!/bin/sh
# Installs heartbeat from a release and verifies its checksum. Needs curl or wget, tar and sha256sum (or
# shasum).
#
#   sh install.sh [--version 0.1.0] [--prefix DIR] [--from URL-OR-FOLDER]
#
# DIR is ~/.local unless given (/usr/local for root). Without --from, the address comes from
# HEARTBEAT_RELEASES; the copy of this script in a release has its own address built in.
set -eu

releases=${HEARTBEAT_RELEASES:-@RELEASES@}
version=
prefix=$HOME/.local
[ "$(id -u)" != 0 ] || prefix=/usr/local

fail() { echo "install.sh: $*" >&2; exit 1; }

while [ $# -gt 0 ]; do
    [ $# -gt 1 ] || fail "$1 needs a value; usage: install.sh [--version V] [--prefix DIR] [--from URL-OR-FOLDER]"
    case $1 in
        --version) version=$2 ;;
        --prefix) prefix=$2 ;;
        --from) releases=$2 ;;
        *) fail "unknown option $1; usage: install.sh [--version V] [--prefix DIR] [--from URL-OR-FOLDER]" ;;
    esac
    shift 2
done
case $releases in @*) fail "where from? give --from, the address of the releases or a folder with the files" ;; esac

[ "$(uname -s)" = Linux ] || fail "there are archives for Linux only; build it with cargo install"
case $(uname -m) in
    x86_64 | amd64) machine=x86_64 ;;
    aarch64 | arm64) machine=aarch64 ;;
    *) fail "there is no archive for $(uname -m); build it with cargo install" ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

# get NAME: into the work folder, from a folder or from a page of releases.
get() {
    case $releases in
        *://*)
            if [ -n "$version" ]; then address=$releases/download/v$version/$1; else address=$releases/latest/download/$1; fi
            if command -v curl >/dev/null; then
                curl --proto '=https,http' -fsSL -o "$work/$1" "$address"
            else
                wget -q -O "$work/$1" "$address"
            fi || fail "cannot get $address"
            ;;
        *) cp "$releases/$1" "$work/$1" 2>/dev/null || fail "there is no $1 in $releases" ;;
    esac
}

get SHA256SUMS
archive=$(sed -nE "s/^[0-9a-f]{64} [ *](heartbeat-[0-9][^ ]*-$machine\.tar\.gz)\$/\1/p" "$work/SHA256SUMS" | head -1)
[ -n "$archive" ] || fail "the release has no archive for $machine"
get "$archive"
expected=$(sed -nE "s/^([0-9a-f]{64}) [ *]$archive\$/\1/p" "$work/SHA256SUMS")
if command -v sha256sum >/dev/null; then
    found=$(sha256sum "$work/$archive" | cut -d' ' -f1)
else
    found=$(shasum -a 256 "$work/$archive" | cut -d' ' -f1)
fi
[ "$expected" = "$found" ] || fail "the checksum of $archive is $found and should be $expected; nothing was installed"

tar -xzf "$work/$archive" -C "$work"
unpacked=$work/${archive%.tar.gz}
"$unpacked/usr/bin/heartbeat" --version >/dev/null || fail "the program does not run on this machine; nothing was installed"
mkdir -p "$prefix/bin" "$prefix/share"
cp "$unpacked/usr/bin/heartbeat" "$prefix/bin/heartbeat.new"
mv "$prefix/bin/heartbeat.new" "$prefix/bin/heartbeat"
cp -R "$unpacked/usr/share/." "$prefix/share/"
echo "Installed $("$prefix/bin/heartbeat" --version) in $prefix/bin (checksum verified)."
case :$PATH: in *:"$prefix/bin":*) ;; *) echo "Add $prefix/bin to PATH." ;; esac
echo "Try it: heartbeat --once --demo"
