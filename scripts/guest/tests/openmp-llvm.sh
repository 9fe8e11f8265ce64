# OMP_PLACES and KMP_AFFINITY as exported, in LLVM's runtime.
# needs: build/workloads/placement/openmp-clang
. scripts/guest/lib.sh
mapped threads --export omp-places=/tmp/places --export kmp-affinity=/tmp/kmp
openmp=build/workloads/placement/openmp-clang
is "OMP_PLACES in LLVM's libomp" "$(placed)" "$(. /tmp/places; $openmp 8)"
is "KMP_AFFINITY in LLVM's libomp" "$(placed)" "$(. /tmp/kmp; $openmp 8)"
finish
