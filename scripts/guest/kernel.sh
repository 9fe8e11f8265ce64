#!/usr/bin/env bash
# Fetches Debian's cloud kernel of a release for the emulated machine, without installing it here: prints where it lies.
#
#   scripts/guest/kernel.sh RELEASE        bookworm has Linux 6.1, trixie 6.12
#
# apt is given a sources list and state of its own below build/guest; the mirror is the one this machine's apt uses
# (or GUEST_MIRROR).
set -euo pipefail
cd "$(dirname "$0")/../.."
release=$1
folder=$PWD/build/guest/$release
kernel=$folder/vmlinuz

if [ ! -e "$kernel" ]; then
    # shellcheck disable=SC2016 # apt's own variables
    site=${GUEST_MIRROR:-$(apt-get indextargets --format '$(ORIGIN) $(RELEASE) $(SITE)' 'Created-By: Packages' |
        awk '$1 == "Debian" && $2 !~ /security/ { print $3; exit }')}
    [ -n "$site" ] || { echo "apt on this machine names no Debian mirror: set GUEST_MIRROR" >&2; exit 1; }
    mkdir -p "$folder"/apt/{state/lists/partial,cache/archives/partial}
    : >"$folder/apt/status"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $site $release main" >"$folder/apt/sources.list"
    apt=(-q -o Dir::Etc::SourceList="$folder/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o Dir::State="$folder/apt/state" -o Dir::State::Status="$folder/apt/status" -o Dir::Cache="$folder/apt/cache"
        -o APT::Architecture=amd64 -o APT::Sandbox::User=root -o Acquire::Languages=none)
    {
        apt-get "${apt[@]}" update
        # The package of this name holds no kernel: it depends on the one that does.
        package=$(apt-cache "${apt[@]}" depends linux-image-cloud-amd64 | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p')
        (cd "$folder/apt" && apt-get "${apt[@]}" download "$package")
        rm -rf "$folder/apt/package"
        dpkg-deb --extract "$folder"/apt/linux-image-*.deb "$folder/apt/package"
    } >"$folder/log" 2>&1 || { tail -n 5 "$folder/log" >&2; exit 1; }
    mv "$folder"/apt/package/boot/vmlinuz-* "$kernel"
    rm -rf "$folder/apt"
fi
echo "$kernel"
