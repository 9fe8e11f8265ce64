#!/usr/bin/env bash
# Makes the initramfs of the emulated machine: busybox, cohabit, the tests, and what each test says that it needs.
#
#   scripts/guest/image.sh COHABIT IMAGE TEST...
#
# A test's line `# needs: WORD...` names programs (found in PATH), absolute paths of files and folders (with wildcards),
# and paths within the source tree (build/workloads/... for what is compiled). All of them lie at the same path in the guest, the tree's
# below /srv/cohabit, together with the shared libraries that they link. A test whose needs are not here is left out and
# said so (`skipped:`). The tests that are in the image are written to IMAGE.tests.
set -euo pipefail
cd "$(dirname "$0")/../.."
cohabit=$1 image=$2
shift 2

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{usr/{bin,sbin,lib,lib64},etc,proc,sys,dev,tmp,root,run,var/tmp,srv/cohabit/bin}
for name in bin sbin lib lib64; do ln -s "usr/$name" "$root/$name"; done
echo root:x:0:0:root:/root:/bin/sh >"$root/etc/passwd"
echo root:x:0: >"$root/etc/group"
echo 127.0.0.1 localhost guest >"$root/etc/hosts"
ln -s /proc/mounts "$root/etc/mtab"

# Programs and libraries whose own libraries are still to be added.
wanted=()

# add FILE PLACE: a file or a folder into the image.
add() {
    [ ! -e "$root$2" ] || return 0
    mkdir -p "$root$(dirname "$2")"
    cp -rL "$1" "$root$2"
    local file
    while IFS= read -r -d '' file; do wanted+=("$file"); done < <(find -L "$1" -type f \( -perm /111 -o -name '*.so*' \) -print0)
}

# The shared libraries of everything that was added; scripts have none.
add_libraries() {
    local library
    while read -r library; do
        add "$library" "$library"
    done < <(printf '%s\n' "${wanted[@]}" | xargs -d '\n' -n 64 ldd 2>/dev/null |
        sed -nE 's/^\t(.* => )?(\/[^ ]+) \(0x.*/\2/p' | sort -u)
}

# The places of a need in this system, one a line; fails where it is not here.
find_here() {
    case $1 in
    */*) compgen -G "$1" ;;
    *) PATH=$PATH:/usr/sbin:/sbin command -v "$1" ;;
    esac
}

add "$(command -v busybox)" /usr/bin/busybox
add "$cohabit" /srv/cohabit/bin/cohabit
cp scripts/guest/init "$root/init"
mkdir -p "$root/srv/cohabit/scripts/guest/tests"
cp scripts/guest/lib.sh "$root/srv/cohabit/scripts/guest/"

: >"$image.tests"
for test in "$@"; do
    script=scripts/guest/tests/$test.sh
    read -r -a needs < <(sed -n 's/^# needs: //p' "$script" | tr '\n' ' '; echo)
    missing=
    for need in ${needs[@]+"${needs[@]}"}; do find_here "$need" >/dev/null || missing+=" $need"; done
    if [ -n "$missing" ]; then
        echo "skipped: $test in the emulated machine: not here:$missing"
        continue
    fi
    for need in ${needs[@]+"${needs[@]}"}; do
        while read -r place; do
            case $place in
            /*) add "$place" "$place" ;;
            *) add "$place" "/srv/cohabit/$place" ;;
            esac
        done < <(find_here "$need")
    done
    cp "$script" "$root/srv/cohabit/scripts/guest/tests/"
    echo "$test" >>"$image.tests"
done
add_libraries
# What was added comes before busybox's program of that name.
for applet in $(busybox --list); do
    [ -e "$root/usr/bin/$applet" ] || [ -e "$root/usr/sbin/$applet" ] || ln -s busybox "$root/usr/bin/$applet"
done
(cd "$root" && find . -print0 | cpio --null --create --format=newc --quiet) >"$image.new"
mv "$image.new" "$image"
