#!/usr/bin/env bash
# Builds the eBPF object of native/bpf into build/native/cohabit.bpf.o, where clang and libbpf's headers are there; says
# what is missed where they are not (online detection then uses perf events). The compiler is ${CLANG}, or the newest
# clang found. CO-RE: the object runs on other kernels than the one it is built on.
set -euo pipefail
cd "$(dirname "$0")/.."

object=build/native/cohabit.bpf.o
sources=(native/bpf/*.c native/bpf/*.h)

newest() {
    local source
    [ -f "$object" ] || return 1
    for source in "${sources[@]}" scripts/bpf.sh; do
        [ "$object" -nt "$source" ] || return 1
    done
}
newest && exit 0

clang=${CLANG:-}
for name in clang clang-2{2,1,0} clang-1{9,8,7,6,5,4}; do
    [ -n "$clang" ] && break
    command -v "$name" >/dev/null && clang=$name
done
skip() {
    echo "bpf: $1: online detection is built without eBPF ('make setup' installs what is missing)" >&2
    exit 0
}
[ -n "$clang" ] || skip "no clang"
case $(uname -m) in
x86_64) target=x86 ;;
*) skip "page faults have no tracepoint on $(uname -m)" ;;
esac
# clang for BPF does not look where Debian keeps <asm/types.h>.
multiarch=/usr/include/$(${CC:-cc} -print-multiarch 2>/dev/null || true)
mkdir -p build/native
printf '#include <linux/bpf.h>\n#include <bpf/bpf_tracing.h>\n' |
    "$clang" -target bpf -D__TARGET_ARCH_$target -I"$multiarch" -fsyntax-only -x c - 2>/dev/null || skip "no libbpf headers"
"$clang" -target bpf -O2 -g -mcpu=v3 -Wall -Wextra -Wno-unused-parameter -D__TARGET_ARCH_$target -I"$multiarch" \
    -c native/bpf/faults.bpf.c -o "$object.new"
mv "$object.new" "$object"
