#!/usr/bin/env bash
# Installs what `make` built as one tree under $PREFIX (below $DESTDIR, for packagers): the binary, DynamoRIO and the
# client, the header with the markers, manual pages and completions.
#
#   lib/cohabit/ has the layout of build/native/, so that the binary finds its parts in both the same way:
#       libcohabit_dbi.so  cohabit-dbi-launch  cohabit.bpf.o  dynamorio/lib64/release/  dynamorio/ext/lib64/release/
set -euo pipefail
cd "$(dirname "$0")/.."

prefix=${DESTDIR:-}${PREFIX:-/usr/local}
cohabit=target/release/cohabit
dynamorio=$(realpath -m build/native/dynamorio) # what the client was built with; sudo drops COHABIT_DYNAMORIO

install -D -m 755 -t "$prefix/bin" "$cohabit"
install -D -m 644 -t "$prefix/include" native/include/cohabit.h native/include/cohabit_progress.h
install -D -m 644 -t "$prefix/share/doc/cohabit" README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT docs/*.md docs/schema.json

if [ -f build/native/libcohabit_dbi.so ]; then
    private=$prefix/lib/cohabit
    install -D -m 755 -t "$private" build/native/libcohabit_dbi.so build/native/cohabit-dbi-launch
    install -D -m 755 -t "$private/dynamorio/lib64/release" "$dynamorio"/lib64/release/lib*.so
    install -D -m 755 -t "$private/dynamorio/ext/lib64/release" "$dynamorio"/ext/lib64/release/lib*.so
    for license in "$dynamorio"/License.txt build/dynamorio-src/License.txt; do
        [ ! -f "$license" ] || install -D -m 644 "$license" "$prefix/share/doc/cohabit/LICENSE-DynamoRIO.txt"
    done
fi

if [ -f build/native/cohabit.bpf.o ]; then
    install -D -m 644 -t "$prefix/lib/cohabit" build/native/cohabit.bpf.o
fi

if [ -f build/native/libcohabit_agent.so ]; then
    install -D -m 755 -t "$prefix/lib/cohabit" build/native/libcohabit_agent.so
fi

for library in build/native/libcohabit-mpi-*.so; do
    [ ! -f "$library" ] || install -D -m 755 -t "$prefix/lib/cohabit" "$library"
done
for program in build/native/cohabit-mpi-pingpong-*; do
    [ ! -f "$program" ] || install -D -m 755 -t "$prefix/lib/cohabit" "$program"
done
# For a site's own MPI: `cohabit mpi build` compiles them.
install -D -m 644 -t "$prefix/lib/cohabit/mpi" native/mpi/*.c native/mpi/*.h
install -D -m 644 -t "$prefix/lib/cohabit/mpi/pingpong" native/mpi/pingpong/pingpong.c

man=$prefix/share/man/man1
rm -f "$man"/cohabit*.1
"$cohabit" man "$man"
completion() { "$cohabit" completions "$1" | install -D -m 644 /dev/stdin "$prefix/share/$2"; }
completion bash bash-completion/completions/cohabit
completion zsh zsh/site-functions/_cohabit
completion fish fish/vendor_completions.d/cohabit.fish
echo "installed under $prefix"
