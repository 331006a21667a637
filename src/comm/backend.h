/* The inside of a world, shared by the files of this room.
 *
 * A back end only moves packets and sleeps; matching by tag, deadlines, delays, long messages, failure notices and
 * collectives are common to all of them. A new back end is one file with one table. */
#ifndef LACONIC_COMM_BACKEND_H
#define LACONIC_COMM_BACKEND_H

#include "comm/tags.h"
#include "laconic/world.h"

enum { LAC_LINE_BYTES = 1024 };

#define LAC_TIMEOUT_DEFAULT 600.0 /* seconds */
#define LAC_WAIT_SLICE 0.02       /* seconds: a signal handler cannot wake a sleeping worker, so it looks this often */

/* A message on its way, or arrived and not yet taken. */
typedef struct lac_packet {
  struct lac_packet *next;
  lac_message message; /* data is malloc'ed; NULL when empty */
  double due;          /* time before which it is not delivered; 0: at once */
} lac_packet;

/* Operations on one worker's end, `link`. All are local and called by the worker's own thread. */
typedef struct lac_backend {
  const char *name;
  size_t packet_limit; /* most bytes in one packet: longer messages are sent in parts */
  double slice;        /* longest sleep (seconds) after which the interrupt flag must be looked at */
  bool endless;        /* waits have no deadline here */

  /* Sends a copy; never waits for the receiver. Packets between a pair arrive in the order sent, whatever their tags.
   * Errors: MEMORY, PEER. */
  lac_status (*send)(void *link, lac_context *context, int to, int tag, const void *data, size_t bytes);

  /* Gives what has arrived since the last call, in order of arrival, and moves on what is being sent. On failure
   * *arrived still holds what did arrive. Errors: MEMORY, PEER. */
  lac_status (*fetch)(void *link, lac_context *context, lac_packet **arrived);

  /* Sleeps until something may have arrived, at most so long. */
  void (*wait)(void *link, double seconds);

  /* Seconds on the clock by which this back end's waits are measured. */
  double (*now)(void *link);

  /* The others are NULL where they have nothing to do. Around the body of a worker, by its thread: */
  void (*enter)(void *link);
  void (*leave)(void *link);

  /* On a virtual clock: a computation took so long; a poll found nothing. */
  void (*spend)(void *link, double seconds);
  void (*miss)(void *link);
} lac_backend;

/* How the body of one worker ended. */
typedef struct lac_outcome {
  int32_t status;
  int32_t echo;    /* 1: only repeats what another worker's failure caused */
  int32_t awaited; /* whom it waited for when it ended with TIMEOUT, else -1 */
  char line[LAC_LINE_BYTES];
} lac_outcome;

/* What is known of one sender. */
typedef struct lac_sender {
  int64_t packets; /* received so far */
  int64_t messages;
  lac_packet *partial; /* a long message whose parts are arriving */
  size_t have;
} lac_sender;

struct lac_world {
  const lac_backend *backend;
  void *link;
  lac_context *context; /* this worker's own */
  int rank, size;
  double timeout, delay_limit; /* seconds */
  int64_t delay_seed;
  size_t packet_limit;
  lac_counts counts;
  lac_packet *inbox;   /* in order of delivery */
  lac_sender *senders; /* (size) */
  int64_t *sent;       /* (size): packets sent to each worker, those of the closing apart */
  bool closing;        /* all bodies have ended */
  int64_t steps;       /* that lac_world_step has counted */
  bool left;           /* by lac_world_leave */

  int failed; /* the worker whose failure was noticed first, or -1 */
  lac_outcome failure;

  lac_status agreed; /* the last failure that lac_world_agree brought from another worker … */
  char agreed_line[LAC_LINE_BYTES];

  int waits_for;    /* LAC_NOT_WAITING, LAC_ANY_WORKER or whom this worker waits for now */
  int awaited;      /* whom the last wait that ended with TIMEOUT waited for, or -1 */
  int64_t question; /* number of the last question asked (see ask in wait.c) … */
  int answer;       /* … and its answer, or LAC_NO_ANSWER */
};

enum { LAC_NOT_WAITING = -2, LAC_NO_ANSWER = -3, LAC_ENDED = -4 }; /* beside LAC_ANY_WORKER and ranks */

/* A packet with a copy of the data; frees a list of them. Errors: MEMORY. */
LAC_MUST_USE lac_status lac_packet_copy(lac_context *context, int from, int tag, const void *data, size_t bytes,
                                        lac_packet **packet);
void lac_packets_drop(lac_packet *first);

/* Opens a worker's world over its end of a back end; close drops what was not received. Errors: MEMORY. */
LAC_MUST_USE lac_status lac_world_open(lac_context *context, const lac_world_options *options,
                                       const lac_backend *backend, void *link, int rank, int size, lac_world *world);
void lac_world_close(lac_world *world);

/* Runs the body and, when it fails on its own account, tells the others. */
void lac_world_body(lac_world *world, lac_world_fn body, void *argument, lac_outcome *outcome);

/* Which worker's failure is the run's: the lowest rank among those that failed on their own account, and for a wait
 * that ended, the one at the end of the chain of waits. -1 when all went well. */
int lac_world_verdict(const lac_outcome *outcomes, int size);

/* Takes in all that has arrived. */
LAC_MUST_USE lac_status lac_world_drain(lac_world *world);

/* One packet to another worker, outside all counts. */
LAC_MUST_USE lac_status lac_world_packet(lac_world *world, int to, int tag, const void *data, size_t bytes);

/* Waits so many seconds for a message whatever has failed or been interrupted: for the closing. Errors: TIMEOUT, PEER,
 * MEMORY. */
LAC_MUST_USE lac_status lac_world_await(lac_world *world, int from, int tag, double seconds, lac_message *message);

/* A back end's run: starts or joins the workers, runs the body, closes. */
LAC_MUST_USE lac_status lac_local_run(lac_context *context, const lac_world_options *options, lac_world_fn body,
                                      void *argument);
LAC_MUST_USE lac_status lac_sim_run(lac_context *context, const lac_world_options *options, lac_world_fn body,
                                    void *argument);
#ifdef LACONIC_HAVE_MPI
LAC_MUST_USE lac_status lac_mpi_run(lac_context *context, const lac_world_options *options, lac_world_fn body,
                                    void *argument);
LAC_MUST_USE lac_status lac_mpi_size(lac_context *context, int *size);
bool lac_mpi_alone(void);
void lac_mpi_finish(void);
#endif

#endif
