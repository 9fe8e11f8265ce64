# mpirun of Open MPI 4.x with the exported rankfile, and with the taskset script between it and the ranks.
# needs: scripts/guest/interleaved.xml mpirun.openmpi orted taskset build/workloads/placement/mpi-openmpi build/workloads/placement/rank
# needs: /usr/lib/x86_64-linux-gnu/openmpi /usr/lib/x86_64-linux-gnu/pmix2 /usr/share/openmpi /etc/openmpi
. scripts/guest/lib.sh
# It wants a way to other hosts even where it needs none.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm_rsh_agent=sh
placement=build/workloads/placement
ranks() { mpirun.openmpi --mca rmaps_rank_file_physical 1 --use-hwthread-cpus --rankfile /tmp/rankfile -n $1 $placement/mpi-openmpi; }
mapped ranks --export open-mpi-4=/tmp/rankfile --export taskset=/tmp/bind
is "ranks of a rankfile" "$(placed)" "$(ranks 8)"
is "ranks that taskset binds" "$(placed)" \
    "$(mpirun.openmpi --use-hwthread-cpus --bind-to none -n 8 sh /tmp/bind $placement/rank)"
(
    interleaved
    mapped ranks --export open-mpi-4=/tmp/rankfile
    is "ranks of a rankfile, PUs numbered across packages" "$(placed)" "$(ranks 8)"
    finish
) || failures=1
without_pu_0
mapped ranks --export open-mpi-4=/tmp/rankfile
is "ranks of a rankfile, a PU not allowed" "$(placed)" "$(ranks 7)"
finish
