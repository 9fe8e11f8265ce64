#!/usr/bin/env bash
# The demo: profiles x264 (Debian's, unmodified) encoding a small video it makes itself, shows who communicates, maps
# the threads to this machine and to a larger one, runs x264 placed, and watched without a profile, and compares placed with unplaced runs.
set -euo pipefail
cd "$(dirname "$0")/.."

cohabit=$PWD/target/release/cohabit
threads=4
runs=8
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

title "Measured: what the system does and the mapping, in turns"
show "$cohabit" compare --mapping here.json --runs "$runs" -- "${whole[@]}"
