#!/usr/bin/env bash
# Runs every test and closes with one line: N passed, N failed, N skipped. A test that cannot run here says why on a
# line that begins with "skipped:"; those lines are repeated at the end.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

log=build/test.log
mkdir -p build
cargo test --workspace --locked --no-fail-fast -- --show-output 2>&1 | tee "$log"
status=${PIPESTATUS[0]}
# What needs more PUs than this machine may have, under the kernel of one release; `make test-numa` takes all of them.
release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release 2>/dev/null)
case $release in bookworm | trixie) ;; *) release=trixie ;; esac
emulated=build/test-numa.log
scripts/test-numa.sh --kernel "$release" 2>&1 | tee "$emulated"
[ "${PIPESTATUS[0]}" = 0 ] || status=1
emulated_passed=$(grep -c '^ok ' "$emulated")
emulated_failed=$(grep -c '^not ok ' "$emulated")
emulated_skipped=$(grep -c '^skipped: ' "$emulated")

skips=$(grep -ohE '^skipped: .*' "$log" "$emulated" | sort -u)
if [ -n "$skips" ]; then
    printf '\nskipped, with the reason:\n'
    echo "${skips//skipped: /  }"
fi
# What failed, and how, once more: cargo says it in the middle of thousands of lines.
failures=$(awk '/^failures:$/ { told = !told; next } /^test result:/ { told = 0 } told' "$log"; grep '^not ok ' "$emulated")
if [ -n "$failures" ]; then
    printf '\nfailed:\n%s\n' "$failures" | cut -c 1-400 | head -n 200
fi
# Tests, not lines: one test may have several reasons. cargo counts a test that skips as passed.
skipped=$(awk '/^---- .* stdout ----$/ { test = $2 } /^skipped: / && !(test in seen) { seen[test]; n++ } END { print n + 0 }' "$log")
sed -nE 's/^test result: [^.]*\. ([0-9]+) passed; ([0-9]+) failed;.*/\1 \2/p' "$log" |
    awk -v skipped="$skipped" -v more_passed="$emulated_passed" -v more_failed="$emulated_failed" \
        -v more_skipped="$emulated_skipped" '{ passed += $1; failed += $2 }
        END { printf "\n%d passed, %d failed, %d skipped\n", passed - skipped + more_passed, failed + more_failed,
            skipped + more_skipped }'
exit "$status"
