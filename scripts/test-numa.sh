#!/usr/bin/env bash
# Tests on a machine with eight PUs and two NUMA nodes, which qemu emulates: 2 packages x 2 cores x 2 threads under
# Debian's cloud kernels. For what works, never for timings. A test is a file in scripts/guest/tests.
#
#   scripts/test-numa.sh [--kernel RELEASE]... [--cohabit FILE] [TEST...]      default: both kernels, all tests
#   scripts/test-numa.sh --pus 32 online                        more cores: a multiple of 4 PUs; tests that do not say so are for 8
#   scripts/test-numa.sh --shell [TEST...]                      a shell in the machine, with what these tests need
#
# Closes with "N passed, N failed, N skipped"; what cannot run here is said on a line that begins with "skipped:".
set -euo pipefail
cd "$(dirname "$0")/.."

kernels=() tests=() shell=no cohabit= pus=8
while [ $# -gt 0 ]; do
    case $1 in
    --kernel) kernels+=("$2"); shift ;;
    --cohabit) cohabit=$2; shift ;;
    --pus) pus=$2; shift ;;
    --shell) shell=yes ;;
    -*) echo "test-numa: unknown option $1" >&2; exit 2 ;;
    *) tests+=("$1") ;;
    esac
    shift
done
case $pus in *[!0-9]* | '') pus=0 ;; esac
if [ "$pus" -lt 4 ] || [ $((pus % 4)) -ne 0 ]; then
    echo "test-numa: --pus takes a multiple of 4" >&2
    exit 2
fi
[ ${#kernels[@]} -gt 0 ] || kernels=(bookworm trixie)
[ ${#tests[@]} -gt 0 ] || mapfile -t tests < <(basename -s .sh scripts/guest/tests/*.sh)

for program in qemu-system-x86_64 busybox cpio; do
    command -v "$program" >/dev/null && continue
    echo "skipped: the emulated machine: no $program here (scripts/setup.sh guest installs it)"
    exit 0
done
if ! busybox --list | grep -x cttyhack >/dev/null || ldd "$(command -v busybox)" >/dev/null 2>&1; then
    echo "skipped: the emulated machine: busybox here is not Debian's busybox-static"
    exit 0
fi

if [ -z "$cohabit" ]; then
    # As the tests have it: by itself it would be built again, with other features of what it depends on.
    cargo test --workspace --locked --no-run
    cohabit=${CARGO_TARGET_DIR:-target}/debug/cohabit
fi
make --no-print-directory -C workloads BUILD="$PWD/build/workloads" >/dev/null
mkdir -p build/guest
image=build/guest/image
log=build/guest/log
{ scripts/guest/image.sh "$cohabit" "$image" "${tests[@]}"; } | tee "$log"

# Topology leaves are Intel's: TCG has not all of AMD's. One thread emulates all CPUs: where qemu 7.2 lets them run in parallel,
# CPUs go on executing a breakpoint that the kernel has long taken out again (it patches its own code, here for perf events),
# for ever, and CMPXCHG16B returns with wrong flags; and one thread needs an eighth of the processor time.
#
# boot KERNEL APPEND: becomes the machine, its console on standard output; switched off after a quarter of an hour, or later where there are many PUs.
boot() {
    local half=$((pus / 2))
    exec timeout --foreground -k 10 $((600 + 38 * pus)) qemu-system-x86_64 -nodefaults -no-user-config -no-reboot -display none -serial mon:stdio -net none \
        -accel tcg,thread=single -cpu max,vendor=GenuineIntel,family=6,model=85,stepping=4 -m 2G -smp $pus,sockets=2,cores=$((pus / 4)),threads=2 \
        -object memory-backend-ram,id=memory0,size=1G -object memory-backend-ram,id=memory1,size=1G \
        -numa node,nodeid=0,memdev=memory0,cpus=0-$((half - 1)) -numa node,nodeid=1,memdev=memory1,cpus=$half-$((pus - 1)) \
        -numa dist,src=0,dst=1,val=21 \
        -kernel "$1" -initrd "$image" -append "console=ttyS0 quiet loglevel=1 panic=-1 $2"
}

# watched KERNEL APPEND: prints the lines of the machine until it is switched off. In it no test takes longer than 30 s a PU:
# a machine that then says nothing for two minutes more stands still, and is ended.
watched() {
    local line machine output
    coproc boot "$@" </dev/null
    machine=$COPROC_PID
    # A file of our own: bash closes its own as soon as the machine has ended, read or not.
    exec {output}<&"${COPROC[0]}"
    while IFS= read -r -t $((120 + 30 * pus)) line <&"$output"; do
        printf '%s\n' "${line//$'\r'/}"
    done
    exec {output}<&-
    kill "$machine" 2>/dev/null || true
    wait "$machine" || true
}

if [ "$shell" = yes ]; then
    boot "$(scripts/guest/kernel.sh "${kernels[0]}")" cohabit.shell
fi
list=$(paste -sd , "$image.tests")
for release in "${kernels[@]}"; do
    if ! kernel=$(timeout 200 scripts/guest/kernel.sh "$release"); then
        echo "skipped: the emulated machine with the kernel of $release: it cannot be fetched" | tee -a "$log"
        continue
    fi
    echo "# the kernel of $release"
    # The emulator now and then does not get the kernel to its first process. Once tests run nothing is tried again: a machine that
    # stands still may do so for what a test does.
    for _ in 1 2 3; do
        watched "$kernel" "cohabit.tests=$list" | sed -u -E "s/^(ok|not ok) /\1 $release: /" | tee "$log.$release" || true
        ! grep -qx '# start' "$log.$release" || break
        echo "# the kernel did not get to its first process: once more"
    done
    cat "$log.$release" >>"$log"
    at=$(sed -n 's/^# \([a-z0-9-]*\)$/\1/p' "$log.$release" | tail -n 1)
    [ "$at" = end ] || echo "not ok $release: the machine did not come to its end (the last it said: ${at:-nothing})" | tee -a "$log"
done
count() { grep -cE "^$1" "$log" || true; }
failed=$(count "not ok ")
printf '\n%d passed, %d failed, %d skipped\n' "$(count "ok ")" "$failed" "$(count "skipped: ")"
[ "$failed" = 0 ]
