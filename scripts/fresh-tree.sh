# Fresh Debian and Ubuntu systems in a folder, for scripts that prove something in one. Sourced: the caller has set
# `release`. Needs root and debootstrap.
#
#   fresh_tree FOLDER    makes the base system of $release in it
#   enter COMMAND...     runs a command in $system
#
# For Debian the mirror is the one that this machine's apt uses, for Ubuntu its archive; FRESH_CHECK_MIRROR names another.
# The caller's proxies, certificates and cargo settings go along. With FRESH_CHECK_BASES=FOLDER, base systems are kept there,
# and copied from there the next time.

say() { echo "$(basename "$0" .sh): $*"; }

# A cause and a remedy.
die() {
    say "$1" >&2
    echo "  $2" >&2
    exit 1
}

# Sets distribution and components of $release.
known_release() {
    case $release in
    trixie | bookworm) distribution=debian components=main ;;
    noble | jammy) distribution=ubuntu components=main,universe ;;
    *) die "$release: not a release that is known here" "trixie, bookworm, noble or jammy" ;;
    esac
}

mirror() {
    local site=${FRESH_CHECK_MIRROR:-}
    [ -n "$site" ] || [ "$distribution" = debian ] || site=http://archive.ubuntu.com/ubuntu
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

bootstrap() {
    local folder=$1 site script keyring
    site=$(mirror)
    # A debootstrap that is older than the release has no script of that name; all of Ubuntu's are one.
    script=/usr/share/debootstrap/scripts/$release
    [ -e "$script" ] || [ "$distribution" = debian ] || script=/usr/share/debootstrap/scripts/gutsy
    keyring=/usr/share/keyrings/$distribution-archive-keyring.gpg
    [ -e "$keyring" ] ||
        die "no keys of $distribution's archive here" "the package $distribution-archive-keyring or ubuntu-keyring has them"
    say "a fresh $distribution $release"
    debootstrap --variant=minbase --components="$components" --keyring="$keyring" "$release" "$folder" "$site" "$script" \
        >"$folder.log" 2>&1 ||
        { tail -n 20 "$folder.log" >&2; die "debootstrap failed" "its output is in $folder.log"; }
    rm -f "$folder.log"
}

fresh_tree() {
    system=$1
    known_release
    [ "$(id -u)" = 0 ] || die "needs root, for chroot" "run it as root"
    command -v debootstrap >/dev/null || die "debootstrap is missing" "apt-get install debootstrap"
    local base=${FRESH_CHECK_BASES:+$FRESH_CHECK_BASES/$release}
    if [ -z "$base" ]; then
        bootstrap "$system"
    else
        [ -e "$base/etc/debian_version" ] || { mkdir -p "$base"; bootstrap "$base"; }
        say "a copy of the $distribution $release in $base"
        cp -a "$base/." "$system"
    fi
    copy_network_settings
}
