#!/usr/bin/env bash
# Runs every test and closes with one line: N passed, N failed, N skipped. A test that cannot run here says why on a
# line that begins with "skipped:"; those lines are repeated at the end.
#
# What drives other people's daemons and schedulers may fail for what else the machine does: a failed test of a file in
# scripts/unsteady runs once more, alone, and if it passes then it is said to be unsteady and does not fail the whole. Nobody
# else's tests do: what is computed or counted is right each time.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

unsteady_files=$(awk '!/^#/ { printf "%s ", $1 }' scripts/unsteady)

log=build/test.log
mkdir -p build
# Some sixty test programs are linked, by mold in a fraction of the time. It is preloaded into what links, so the tests run without it.
if command -v mold >/dev/null; then
    mold -run cargo test --workspace --locked --no-run
fi
cargo test --workspace --locked --no-fail-fast -- --show-output 2>&1 | tee "$log"
status=${PIPESTATUS[0]}

# FILE TEST of each failure, FILE being "-" for tests within a crate; and "- -" where a target failed without a test that
# did: it did not build, or ended before its time.
failed() {
    awk '$1 == "Running" || $1 == "Doc-tests" { target++; file = $2 ~ /^tests\// ? $2 : "-" }
        $1 == "test" && $NF == "FAILED" { sub(/^tests\//, "", file); sub(/(\/main)?\.rs$/, "", file); print file, $2; with[target] }
        $1 == "error:" && /[0-9]+ targets? failed:$/ { targets = $2 }
        END { for (one in with) told++; if (!targets || told != targets) print "- -" }' "$log"
}
again=build/test-again.log
: >"$again"
unsteady=()
if [ "$status" != 0 ]; then
    status=0
    while read -r file name; do
        case " $unsteady_files " in
        *" $file "*)
            printf '\nonce more, alone: %s\n' "$name"
            if cargo test --workspace --locked --test "$file" -- --show-output --exact "$name" 2>&1 </dev/null | tee -a "$again" |
                grep -E '^test result: ok\. 1 passed'; then
                unsteady+=("$name")
            else
                status=1
            fi
            ;;
        *) status=1 ;;
        esac
    done < <(failed)
fi
# What needs more PUs than this machine may have, under the kernel of one release; `make test-numa` takes all of them.
release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release 2>/dev/null)
case $release in bookworm | trixie) ;; *) release=trixie ;; esac
emulated=build/test-numa.log
scripts/test-numa.sh --kernel "$release" 2>&1 | tee "$emulated"
[ "${PIPESTATUS[0]}" = 0 ] || status=1
# Its closing line; there is none where nothing of it can run.
read -r emulated_passed emulated_failed emulated_skipped < <(
    sed -nE 's/^([0-9]+) passed, ([0-9]+) failed, ([0-9]+) skipped$/\1 \2 \3/p' "$emulated" | tail -n 1 | grep . ||
        echo "0 0 $(grep -c '^skipped: ' "$emulated")"
)

if [ ${#unsteady[@]} -gt 0 ]; then
    printf '\nunsteady, failed and passed when run once more:\n'
    printf '  %s\n' "${unsteady[@]}"
fi
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
        -v more_skipped="$emulated_skipped" -v unsteady="${#unsteady[@]}" '{ passed += $1; failed += $2 }
        END { printf "\n%d passed, %d failed, %d skipped", passed - skipped + more_passed + unsteady,
            failed + more_failed - unsteady, skipped + more_skipped
            if (unsteady) printf ", %d of the passed only when run once more", unsteady
            print "" }'
exit "$status"
