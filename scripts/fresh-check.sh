#!/usr/bin/env bash
# Proves that `make demo` and `make test` do all their set-up: runs both in a fresh Debian 13 that holds nothing but
# the base system, make and a clean copy of the committed tree. Needs root and debootstrap. Takes about twenty minutes.
#
#   scripts/fresh-check.sh [--release NAME] [--keep] [COMMAND...]
#
# By default the two commands above. Releases: trixie, bookworm, noble, jammy; --keep leaves the system there to look at.
# scripts/fresh-tree.sh says where the system comes from.
set -euo pipefail
cd "$(dirname "$0")/.."

keep=no release=trixie
while true; do
    case ${1:-} in
    --keep) keep=yes; shift ;;
    --release) release=${2:?"--release needs a name"}; shift 2 ;;
    *) break ;;
    esac
done
commands=("$@")
[ $# -gt 0 ] || commands=("make demo" "make test")

# shellcheck source=scripts/fresh-tree.sh
. scripts/fresh-tree.sh

system=$(mktemp -d "${TMPDIR:-/var/tmp}/cohabit-fresh.XXXXXX")
chmod 755 "$system"
cleanup() {
    if [ "$keep" = yes ]; then
        say "left in $system"
    else
        rm -rf --one-file-system "$system"
    fi
}
trap cleanup EXIT

fresh_tree "$system"
mkdir "$system/srv/cohabit"
git archive HEAD | tar -x -C "$system/srv/cohabit"
say "what a new user installs first: make"
enter bash -c 'apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends make' >/dev/null

for command in "${commands[@]}"; do
    say "$command"
    started=$SECONDS
    enter bash -c "cd /srv/cohabit && exec $command"
    say "$command: passed in $((SECONDS - started)) s"
done
