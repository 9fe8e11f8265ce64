# mpiexec of MPICH with the exported binding and machinefile.
# needs: scripts/guest/interleaved.xml mpiexec.mpich hydra_pmi_proxy build/workloads/placement/mpi-mpich
. scripts/guest/lib.sh
ranks() { mpiexec.mpich $(cat /tmp/binding) -f /tmp/hosts -n 8 build/workloads/placement/mpi-mpich; }
mapped ranks --export mpich-binding=/tmp/binding --export mpich-hosts=/tmp/hosts
is "ranks of -bind-to user:" "$(placed)" "$(ranks)"
interleaved
mapped ranks --export mpich-binding=/tmp/binding --export mpich-hosts=/tmp/hosts
is "ranks of -bind-to user:, PUs numbered across packages" "$(placed)" "$(ranks)"
finish
