#!/usr/bin/env bash
# The demo: profiles x264 (Debian's, unmodified) encoding a small video it makes itself, shows who communicates, maps
# the threads to this machine and to a larger one, runs x264 placed, and watched without a profile, and compares placed with unplaced runs.
set -euo pipefail
cd "$(dirname "$0")/.."

cohabit=$PWD/target/release/cohabit
threads=4
runs=5
width=640 height=368
frames=240   # of the video, and of the runs that are measured
profiled=30  # of the run that is profiled: what the threads say to one another is the same in each frame

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

title() { printf '\n== %s\n' "$*"; }

# Runs what it shows.
show() {
    local line="$*"
    printf '$ %s\n' "${line//$cohabit/cohabit}"
    "$@"
}

# A picture with fine detail that pans, so that motion search has something to find. perl-base is on every Debian.
make_video() {
    perl -e '
        my ($width, $height, $frames) = @ARGV;
        srand 1;
        my @rows = map {
            my $y = $_;
            join "", map { chr int(128 + 60 * sin($_ / 23 + $y / 17) + 40 * sin($_ * $y / 5000) + rand(16) - 8) } 1 .. $width + 3 * $frames;
        } 1 .. $height + 2 * $frames;
        my $colour = chr(128) x ($width * $height / 2);
        for my $frame (0 .. $frames - 1) {
            print substr($rows[$_ + 2 * $frame], 3 * $frame, $width) for 0 .. $height - 1;
            print $colour;
        }' "$width" "$height" "$frames"
}

milliseconds() {
    local started ended
    started=$(date +%s%N)
    "$@" >/dev/null 2>&1
    ended=$(date +%s%N)
    echo $(((ended - started) / 1000000))
}

# Median and range of the numbers in a file.
summary() { sort -n "$1" | awk '{ v[NR] = $1 } END { printf "median %d ms (%d to %d)", v[int((NR + 1) / 2)], v[1], v[NR] }'; }

# Says whether two sets of times differ: only where their ranges are apart is that more than the machine's noise.
compare() {
    awk -v runs="$runs" '
        FNR == 1 { file++ }
        { if (!(file in low) || $1 < low[file]) low[file] = $1; if ($1 > high[file]) high[file] = $1 }
        END {
            if (high[2] < low[1]) print "placed runs are faster: every one of " runs " beats every unplaced one"
            else if (high[1] < low[2]) print "placed runs are SLOWER: every one of " runs " is behind every unplaced one"
            else print "no difference that " runs " runs each can show: the ranges overlap"
        }' "$1" "$2"
}

whole=(x264 --quiet --no-progress --threads "$threads" --demuxer raw --input-csp i420
    --input-res "${width}x$height" -o video.264 video.yuv)
short=("${whole[@]}" --frames "$profiled")
make_video >video.yuv

title "Profile: who communicates with whom"
show "$cohabit" profile -o x264.npz -- "${short[@]}"

title "Show"
show "$cohabit" show x264.npz

title "Map: onto this machine"
show "$cohabit" map x264.npz -o here.json

title "Map: onto a machine with two packages of four L3 caches"
show "$cohabit" map x264.npz --topology "pack:2 l3:4 core:4 pu:2"

title "Run, placed"
show "$cohabit" run --mapping here.json -- "${whole[@]}"

title "Run without a profile: watched while it runs, and moved if that is worth it"
show "$cohabit" run -- "${whole[@]}" || echo "(not on this machine, or not by this user: \`cohabit doctor\` says what would help)"

title "Measured: $runs runs unplaced and $runs placed, in turns"
for ((run = 0; run < runs; run++)); do
    milliseconds "${whole[@]}" >>unplaced
    milliseconds "$cohabit" run --mapping here.json -- "${whole[@]}" >>placed
done
echo "unplaced  $(summary unplaced)"
echo "placed    $(summary placed)"
compare unplaced placed
echo "predicted: $("$cohabit" map x264.npz | tail -n 1)"
