#!/bin/sh
# mpiexec as the tests need it: workers are processes on whatever cores there are, containers run as root and forbid one
# way of copying between processes. LACONIC_REAL_MPIEXEC says which mpiexec.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_mpi_yield_when_idle=1
export OMPI_MCA_plm=isolated OMPI_MCA_btl_vader_single_copy_mechanism=none
# In a sanitised program: true call stacks, so that a leak is put down to Open MPI; those of the fast unwinder end in a
# library without frame pointers. They are so slow that nobody else pays for them, and no more is walked than it takes to
# come from an allocation to Open MPI.
export ASAN_OPTIONS="${ASAN_OPTIONS:-}${ASAN_OPTIONS:+:}fast_unwind_on_malloc=0:malloc_context_size=12"
exec "$LACONIC_REAL_MPIEXEC" "$@"
