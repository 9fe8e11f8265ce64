#!/usr/bin/env bash
# Proves that `make demo` and `make test` do all their set-up: runs both in a fresh Debian 13 that holds nothing but
# the base system, make and a clean copy of the committed tree. Needs root and debootstrap. Takes about twenty minutes.
#
#   scripts/fresh-check.sh [--release NAME] [--keep] [COMMAND...]
#
# By default the two commands above. Releases: trixie, bookworm, noble, jammy; --keep leaves the system there to look at.
# For Debian the mirror is the one that this machine's apt uses, for Ubuntu its archive; FRESH_CHECK_MIRROR names another.
# The caller's proxies, certificates and cargo settings go along.
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

say() { echo "fresh-check: $*"; }

die() {
    echo "fresh-check: $1" >&2
    echo "  $2" >&2
    exit 1
}

case $release in
trixie | bookworm) distribution=debian components=main ;;
noble | jammy) distribution=ubuntu components=main,universe ;;
*) die "$release: not a release that is known here" "trixie, bookworm, noble or jammy" ;;
esac

mirror() {
    local site=${FRESH_CHECK_MIRROR:-}
    [ -n "$site" ] || [ $distribution = debian ] || site=http://archive.ubuntu.com/ubuntu
    # shellcheck disable=SC2016 # apt's own variables
    [ -n "$site" ] || site=$(apt-get indextargets --format '$(ORIGIN) $(RELEASE) $(SITE)' 'Created-By: Packages' |
        awk '$1 == "Debian" && $2 !~ /security/ { print $3; exit }')
    [ -n "$site" ] || die "apt on this machine names no Debian mirror" "set FRESH_CHECK_MIRROR to one"
    echo "$site"
}

# What the caller's programs need to reach the registries: copied in, never shared for writing.
copy_network_settings() {
    cp -L /etc/resolv.conf /etc/hosts "$system/etc/"
    apt-config dump | grep -iE '^Acquire::(https?)::Proxy ' >"$system/etc/apt/apt.conf.d/90caller" || true
    local settings=${CARGO_HOME:-$HOME/.cargo}
    mkdir -p "$system/srv/.cargo"
    for name in config.toml config; do
        [ ! -f "$settings/$name" ] || install -m 444 "$settings/$name" "$system/srv/.cargo/$name"
    done
    environment=(HOME=/srv TERM=dumb LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)
    local name
    for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
        [ -z "${!name:-}" ] || environment+=("$name=${!name}")
    done
    local certificates=${SSL_CERT_FILE:-${CURL_CA_BUNDLE:-}}
    if [ -f "$certificates" ]; then
        install -m 444 "$certificates" "$system/etc/caller-certificates.crt"
        environment+=(SSL_CERT_FILE=/etc/caller-certificates.crt CARGO_HTTP_CAINFO=/etc/caller-certificates.crt)
    fi
}

# Runs a command in the fresh system, in its own mount and process namespaces: nothing is left mounted or running.
enter() {
    # shellcheck disable=SC2016 # the inner shell expands
    unshare --mount --pid --fork bash -c '
        set -e
        system=$1
        shift
        # What "ip netns" and unshare set the propagation of is a mount, the root too.
        mount --bind "$system" "$system"
        mount -t proc proc "$system/proc"
        mount --rbind /sys "$system/sys"
        mount --rbind /dev "$system/dev"
        exec chroot "$system" "$@"' enter "$system" env -i "${environment[@]}" "$@"
}

[ "$(id -u)" = 0 ] || die "needs root, for chroot" "run it as root"
command -v debootstrap >/dev/null || die "debootstrap is missing" "apt-get install debootstrap"

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

site=$(mirror)
# A debootstrap that is older than the release has no script of that name; all of Ubuntu's are one.
script=/usr/share/debootstrap/scripts/$release
[ -e "$script" ] || [ $distribution = debian ] || script=/usr/share/debootstrap/scripts/gutsy
keyring=/usr/share/keyrings/$distribution-archive-keyring.gpg
[ -e "$keyring" ] || die "no keys of $distribution's archive here" "the package $distribution-archive-keyring or ubuntu-keyring has them"
say "a fresh $distribution $release"
debootstrap --variant=minbase --components=$components --keyring="$keyring" "$release" "$system" "$site" "$script" \
    >"$system.log" 2>&1 ||
    { tail -n 20 "$system.log" >&2; die "debootstrap failed" "its output is in $system.log"; }
rm -f "$system.log"
copy_network_settings
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
