/* Ranks of MPI, inside. mpi.c has what is common: the life of MPI, how a run begins and closes. How packets travel is
 * in mpi_packets.c for MPI proper and in smpi_packets.c for a program of the simulator SMPI; one of them is compiled.
 * Only these four files know MPI. */
#ifndef LACONIC_COMM_MPI_LINK_H
#define LACONIC_COMM_MPI_LINK_H

#include <mpi.h>

#include "comm/backend.h"

typedef struct lac_mpi_link lac_mpi_link;

extern const lac_backend lac_mpi_backend;

/* This rank's end of a communicator of `size` ranks, borrowed. Errors: MEMORY, PEER. */
LAC_MUST_USE lac_status lac_mpi_link_open(lac_context *context, MPI_Comm comm, int size, lac_mpi_link **link);
void lac_mpi_link_close(lac_mpi_link *link); /* of NULL: nothing */

/* Whether MPI has finished with all that was sent and all that it began to receive, as far as the last call of the back
 * end saw. */
bool lac_mpi_link_idle(const lac_mpi_link *link);

/* A communicator of a run's own. Collective. Errors: INTERRUPTED, TIMEOUT when not all ranks come within so many
 * seconds, PEER. */
LAC_MUST_USE lac_status lac_mpi_join(lac_context *context, double timeout, MPI_Comm *comm);

/* Turns an error of MPI into a failure. */
LAC_MUST_USE lac_status lac_mpi_check(lac_context *context, int code, const char *what);

/* Sleeps, on the clock of the back end. */
void lac_mpi_nap(double seconds);

#endif
