#!/usr/bin/env bash
# Packs what `make` built, into build/packages:
#
#   scripts/package.sh deb        cohabit_VERSION_amd64.deb, by debhelper (debian/)
#   scripts/package.sh tarball    cohabit-VERSION-x86_64.tar.xz: a tree that runs wherever it is unpacked, without root
#
# Both need the C library of the system that they are built on, or a newer one: build on the oldest that they are for.
# The tarball has all other shared libraries with it, and a module file for Environment Modules and Lmod.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "package: $*"; }

die() {
    echo "package: $1" >&2
    echo "  $2" >&2
    exit 1
}

version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
out=build/packages
mkdir -p "$out"
[ -x target/release/cohabit ] || die "target/release/cohabit is not there" "make"

deb() {
    # dpkg leaves its results beside the tree, and what it works on in it.
    local work=$PWD/build/deb
    rm -rf "$work"
    mkdir -p "$work/cohabit/target/release"
    git archive HEAD | tar -x -C "$work/cohabit"
    cp -l target/release/cohabit "$work/cohabit/target/release/" 2>/dev/null ||
        cp target/release/cohabit "$work/cohabit/target/release/"
    mkdir "$work/cohabit/build"
    cp -a build/native "$work/cohabit/build/"
    (
        cd "$work/cohabit"
        sed -i "1s/(.*)/($version)/" debian/changelog
        # Whoever made the binary had what building needs.
        dpkg-buildpackage --build=binary --no-sign >"$work/log" 2>&1
    ) || { tail -n 30 "$work/log" >&2; die "dpkg-buildpackage failed" "its output is in $work/log"; }
    grep -E '^(dpkg-shlibdeps|dh_[a-z]*): (warning|error)' "$work/log" | sort -u || true
    mv "$work/cohabit_${version}_amd64.deb" "$out/"
    rm -rf "$work/cohabit"
    say "$out/cohabit_${version}_amd64.deb"
}

# The shared libraries of the program that are not the C library's: NAME PATH each.
libraries() {
    ldd "$1" | awk '$2 == "=>" && $1 !~ /^(libc|libm|libgcc_s|libpthread|libdl|librt|ld-linux.*)\.so/ { print $1, $3 }'
}

tarball() {
    local name=cohabit-$version tree library path own package
    tree=build/tarball/$name
    rm -rf build/tarball
    DESTDIR='' PREFIX="$PWD/$tree" scripts/install.sh >/dev/null
    own=$tree/lib/cohabit/libraries
    mkdir -p "$own"
    strip --strip-unneeded "$tree/bin/cohabit"
    while read -r library path; do
        install -m 644 "$path" "$own/$library"
        patchelf --set-rpath '$ORIGIN' "$own/$library"
        package=$(dpkg-query -S "$(realpath "$path")" 2>/dev/null | cut -d : -f 1 || true)
        [ -z "$package" ] ||
            install -D -m 644 "/usr/share/doc/$package/copyright" "$tree/share/doc/cohabit/libraries/$package.copyright"
    done < <(libraries target/release/cohabit)
    patchelf --set-rpath '$ORIGIN/../lib/cohabit/libraries' "$tree/bin/cohabit"
    install -D -m 644 packaging/modulefile "$tree/share/modulefiles/cohabit/$version"
    tar --sort=name --owner=0 --group=0 --numeric-owner -C build/tarball -cJf "$out/$name-x86_64.tar.xz" "$name"
    rm -rf build/tarball
    say "$out/$name-x86_64.tar.xz"
}

case ${1:-} in
deb | tarball) "$1" ;;
*) die "what to pack?" "scripts/package.sh deb, or scripts/package.sh tarball" ;;
esac
