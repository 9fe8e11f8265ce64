#!/usr/bin/env bash
# Proves that the packages work: in fresh Debian 12 and 13 and Ubuntu 24.04, the .deb is installed by apt, profiles, maps and
# runs a program, is removed, and leaves nothing; then the tarball does the same from a home folder, for a user who is not
# root, by its module file (Lmod), and once more after it was moved (Environment Modules). Needs root, debootstrap, and build/packages.
#
#   scripts/package-check.sh [RELEASE...]        bookworm, trixie and noble, if none is named
#
# scripts/fresh-tree.sh says where the systems come from.
set -euo pipefail
cd "$(dirname "$0")/.."

releases=("$@")
[ $# -gt 0 ] || releases=(bookworm trixie noble)

# shellcheck source=scripts/fresh-tree.sh
. scripts/fresh-tree.sh

deb=$(ls build/packages/cohabit_*_amd64.deb 2>/dev/null) || die "there is no .deb in build/packages" "make deb"
tarball=$(ls build/packages/cohabit-*-x86_64.tar.xz 2>/dev/null) || die "there is no tarball in build/packages" "make tarball"
program=build/workloads/patterns-pthreads
[ -x "$program" ] || die "$program is not there" "make native"

system=
trap '[ -z "$system" ] || rm -rf --one-file-system "$system"' EXIT

# What a user does first; "exact" is of the coverage. Whether the run is placed is for this machine to say: it may have nothing to gain.
cat >build/package-use.sh <<'END'
set -euo pipefail
cd "$(mktemp -d)"
cohabit --version
cohabit doctor | grep -E '^works +profiler'
cohabit profile -o p.npz -- /srv/patterns-pthreads ring --threads 4 >/dev/null
cohabit show p.npz | grep -E '^coverage: exact'
cohabit map p.npz --topology "pack:2 core:4 pu:1" -o m.json | grep -E '^J +best'
cohabit map p.npz --topology "pack:2 core:4 pu:1" --mapper scotch | grep -E '^J +scotch'
cohabit map p.npz --topology "pack:2 core:4 pu:1" --mapper metis | grep -E '^J +metis'
cohabit run --profile p.npz -- /srv/patterns-pthreads ring --threads 4 >/dev/null
echo "used $(command -v cohabit)"
END

for release in "${releases[@]}"; do
    system=$(mktemp -d "${TMPDIR:-/var/tmp}/cohabit-packages.XXXXXX")
    chmod 755 "$system"
    fresh_tree "$system"
    cp "$deb" "$tarball" "$program" build/package-use.sh "$system/srv/"
    as_apt() { enter env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 --no-install-recommends "$@" >/dev/null; }
    as_apt update
    say "$release: the .deb"
    as_apt install -y "/srv/$(basename "$deb")"
    enter bash /srv/package-use.sh
    enter dpkg -L cohabit | grep -x /usr/share/bash-completion/completions/cohabit >/dev/null
    as_apt purge -y --autoremove cohabit
    left=$(find "$system/usr" "$system/etc" "$system/var/lib" -name '*cohabit*' -not -path '*/dpkg/*' -not -path '*/apt/*')
    [ -z "$left" ] || die "$release: the package leaves $left" "see debian/"
    as_apt install -y xz-utils
    enter useradd --create-home user
    # With each of the programs that read module files: its package, and what defines `module`; after the first the tree is moved.
    # Lmod takes no module file in Tcl whose path has a blank.
    for by in 'lmod /usr/share/lmod/lmod/init/bash opt' 'environment-modules /usr/share/modules/init/bash moved there'; do
        read -r package init at <<<"$by"
        say "$release: the tarball, for a user, by its module file and $package"
        as_apt install -y "$package"
        # shellcheck disable=SC2016 # the user's shell expands
        enter su user -c '
            set -eu
            mkdir -p "$HOME/opt"
            [ -e "$HOME"/opt/cohabit-* ] || [ -e "$HOME/moved there" ] || tar -xf /srv/cohabit-*.tar.xz -C "$HOME/opt"
            at="$HOME/'"$at"'"
            [ -e "$at" ] || mv "$HOME/opt" "$at"
            set +u
            . '"$init"'
            module use "$(echo "$at"/cohabit-*)/share/modulefiles"
            module load cohabit
            case $(command -v cohabit) in "$at"/*) ;; *) exit 1 ;; esac
            bash /srv/package-use.sh' --shell /bin/bash
    done
    say "$release: passed"
    rm -rf --one-file-system "$system"
    system=
done
