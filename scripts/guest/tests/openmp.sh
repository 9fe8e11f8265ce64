# OMP_PLACES and GOMP_CPU_AFFINITY as exported, in GNU's runtime.
# needs: build/workloads/placement/openmp
. scripts/guest/lib.sh
mapped threads --export omp-places=/tmp/places --export gomp-cpu-affinity=/tmp/gomp
openmp=build/workloads/placement/openmp
is "OMP_PLACES in libgomp" "$(placed)" "$(. /tmp/places; $openmp 8)"
is "GOMP_CPU_AFFINITY in libgomp" "$(placed)" "$(. /tmp/gomp; $openmp 8)"
finish
