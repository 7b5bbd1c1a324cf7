#!/bin/sh
# Installs Lodge below ~/.local (or --prefix), upgrades it, removes it.
#
#   sh install.sh --from DIR|URL      install or upgrade from a directory or an address that holds a release
#   sh install.sh --uninstall         remove what was installed; sessions and settings stay
#
# Needs a POSIX shell, tar with gzip, and one of sha256sum, shasum or openssl; for addresses curl or wget.
set -eu

usage() {
    cat <<'END'
usage: install.sh [--from DIR|URL] [--version VERSION] [--prefix DIR]
       install.sh --uninstall [--prefix DIR]

  --from DIR|URL      where the release is: the directory or address with SHA256SUMS in it
                      [default: LODGE_FROM, or the directory of this script]
  --version VERSION   which version, if there are several [default: the newest that is not a preview]
  --prefix DIR        where to install: DIR/bin and DIR/share [default: ~/.local]
  --uninstall         remove what was installed; sessions and settings stay
END
}

fail() {
    echo "error: $*" >&2
    exit 1
}

# The value of an option.
value() {
    [ "$#" -ge 2 ] && [ -n "$2" ] || fail "$1 needs a value; see --help"
}

from=${LODGE_FROM:-}
version=
prefix=
uninstall=no
while [ "$#" -gt 0 ]; do
    case $1 in
        --from) value "$@"; from=$2; shift 2 ;;
        --version) value "$@"; version=$2; shift 2 ;;
        --prefix) value "$@"; prefix=$2; shift 2 ;;
        --uninstall) uninstall=yes; shift ;;
        -h | --help) usage; exit 0 ;;
        *) usage >&2; fail "unknown argument: $1" ;;
    esac
done
if [ -z "$prefix" ]; then
    [ -n "${HOME:-}" ] || fail "HOME is not set; say where to install with --prefix"
    prefix=$HOME/.local
fi
mkdir -p "$prefix" || fail "cannot create $prefix"
prefix=$(cd "$prefix" && pwd)
# What was installed, one path below the prefix a line.
list=$prefix/share/lodge/installed

remove() {
    rm -f "$prefix/$1"
    dir=$(dirname "$1")
    while [ "$dir" != . ] && rmdir "$prefix/$dir" 2>/dev/null; do
        dir=$(dirname "$dir")
    done
}

if [ "$uninstall" = yes ]; then
    [ -f "$list" ] || fail "nothing is installed in $prefix by this script"
    # A service must not outlive its program.
    code=0
    "$prefix/bin/lodge" service status >/dev/null 2>&1 || code=$?
    case $code in
        0 | 3) "$prefix/bin/lodge" service uninstall || fail "the service cannot be removed, so nothing was" ;;
    esac
    while IFS= read -r file; do
        remove "$file"
    done <"$list"
    remove share/lodge/installed
    echo "Lodge is removed from $prefix. Sessions and settings stay where they are: delete them yourself if you want."
    exit 0
fi

if [ -z "$from" ]; then
    here=$(dirname "$0")
    [ -f "$here/SHA256SUMS" ] || fail "say where the release is, with --from DIR or --from URL"
    from=$here
fi
case $from in
    */) from=${from%/} ;;
esac

fetch() {
    case $from in
        http://* | https://*)
            if command -v curl >/dev/null 2>&1; then
                curl --fail --silent --show-error --location --output "$2" "$from/$1"
            elif command -v wget >/dev/null 2>&1; then
                wget -q -O "$2" "$from/$1"
            else
                fail "neither curl nor wget is installed; download the release and name its directory with --from"
            fi || fail "$from/$1 cannot be fetched"
            ;;
        *) cp "$from/$1" "$2" || fail "$from/$1 cannot be read" ;;
    esac
}

sum_of() {
    if command -v sha256sum >/dev/null 2>&1; then
        sha256sum "$1" | cut -d ' ' -f 1
    elif command -v shasum >/dev/null 2>&1; then
        shasum -a 256 "$1" | cut -d ' ' -f 1
    elif command -v openssl >/dev/null 2>&1; then
        openssl dgst -sha256 "$1" | sed 's/.* //'
    else
        fail "none of sha256sum, shasum and openssl is installed, so the download cannot be verified"
    fi
}

case $(uname -m) in
    x86_64 | amd64) processor=x86_64 ;;
    aarch64 | arm64) processor=aarch64 ;;
    *) fail "there is no release for this processor ($(uname -m)); build Lodge from source" ;;
esac
case $(uname -s) in
    Linux) system=linux ;;
    Darwin) system=macos ;;
    *) fail "there is no release for this system ($(uname -s)); build Lodge from source" ;;
esac
platform=$processor-$system

work=$(mktemp -d "${TMPDIR:-/tmp}/lodge-install.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

fetch SHA256SUMS "$work/SHA256SUMS"
# The newest, by the numbers of its version. A version before a release is installed only if it is named.
line=$(sed -n "s/^.*  lodge-\(${version:-[0-9][0-9.]*}\)-$platform\.tar\.gz\$/\1 &/p" "$work/SHA256SUMS" |
    sort -t . -k 1,1n -k 2,2n -k 3,3n | tail -n 1 | cut -d ' ' -f 2-)
[ -n "$line" ] || fail "$from has no release ${version:+$version }for $platform"
wanted=${line%% *}
archive=${line##* }
fetch "$archive" "$work/$archive"
[ "$(sum_of "$work/$archive")" = "$wanted" ] ||
    fail "$archive is not what SHA256SUMS says: it was damaged or changed on its way. Nothing was installed."
mkdir "$work/tree"
tar -xzf "$work/$archive" -C "$work/tree" || fail "$archive cannot be unpacked"
tree=$work/tree/${archive%.tar.gz}
new=$("$tree/bin/lodge" --version) ||
    fail "the program does not run on this system. Nothing was installed. (The GNU C library may be too old.)"
old=
[ ! -x "$prefix/bin/lodge" ] || old=$("$prefix/bin/lodge" --version 2>/dev/null) || old=

(cd "$tree" && find . -type f | sed 's,^\./,,' | LC_ALL=C sort) >"$work/installed"
while IFS= read -r file; do
    mkdir -p "$prefix/$(dirname "$file")"
    # Renamed into place: a host that runs keeps its program, and nobody sees half a file.
    cp "$tree/$file" "$prefix/$file.new.$$" && mv -f "$prefix/$file.new.$$" "$prefix/$file" ||
        fail "$prefix/$file cannot be written"
done <"$work/installed"
if [ -f "$list" ]; then
    while IFS= read -r file; do
        grep -Fqx -e "$file" "$work/installed" || remove "$file"
    done <"$list"
fi
mkdir -p "$(dirname "$list")"
cp "$work/installed" "$list"

if [ -z "$old" ]; then
    echo "Installed $new in $prefix/bin/lodge."
elif [ "$old" = "$new" ]; then
    echo "Installed $new again in $prefix/bin/lodge."
else
    echo "Upgraded $old to $new in $prefix/bin/lodge. A running host keeps the old version until you restart it."
fi
case ":${PATH:-}:" in
    *":$prefix/bin:"*) ;;
    *) echo "$prefix/bin is not in PATH. Add it, for instance with: export PATH=\"$prefix/bin:\$PATH\"" ;;
esac
