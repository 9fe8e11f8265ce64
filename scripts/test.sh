#!/usr/bin/env bash
# Runs every test and closes with one line: N passed, N failed, N skipped. A test that cannot run here says why on a
# line that begins with "skipped:"; those lines are repeated at the end.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

log=build/test.log
mkdir -p build
cargo test --workspace --locked --no-fail-fast -- --show-output 2>&1 | tee "$log"
status=${PIPESTATUS[0]}

skips=$(grep -oE '^skipped: .*' "$log" | sort -u)
if [ -n "$skips" ]; then
    printf '\nskipped, with the reason:\n'
    echo "${skips//skipped: /  }"
fi
# Tests, not lines: one test may have several reasons. cargo counts a test that skips as passed.
skipped=$(awk '/^---- .* stdout ----$/ { test = $2 } /^skipped: / && !(test in seen) { seen[test]; n++ } END { print n + 0 }' "$log")
sed -nE 's/^test result: [^.]*\. ([0-9]+) passed; ([0-9]+) failed;.*/\1 \2/p' "$log" |
    awk -v skipped="$skipped" '{ passed += $1; failed += $2 }
        END { printf "\n%d passed, %d failed, %d skipped\n", passed - skipped, failed, skipped }'
exit "$status"
