#!/bin/sh
# mpiexec as the tests need it: workers are processes on whatever cores there are, containers run as root and forbid one
# way of copying between processes. LACONIC_REAL_MPIEXEC says which mpiexec.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_mpi_yield_when_idle=1
export OMPI_MCA_plm=isolated OMPI_MCA_btl_vader_single_copy_mechanism=none
# In a sanitised program: whole call stacks, so that a leak is put down to Open MPI; those of the fast unwinder end in a
# library without frame pointers. They are so slow that nobody else pays for them.
export ASAN_OPTIONS="${ASAN_OPTIONS:-}${ASAN_OPTIONS:+:}fast_unwind_on_malloc=0"
exec "$LACONIC_REAL_MPIEXEC" "$@"
