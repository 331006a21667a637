/* The weighted mean over a worker's neighbours in a topology, D-PSGD's (Lian et al. 2017): a worker sends its vector to
 * those in whose row it stands and adds up those in its own row, in the order of their numbers.
 *
 * Bounds: the network, a vector through each link of the topology. */
#include <string.h>

#include "base/memory.h"
#include "comm/tags.h"
#include "replica/collect.h"
#include "replica/exchange.h"

typedef struct lac_neighbours {
  int32_t *from, *to;     /* (in), (out): other workers */
  double *weight, itself; /* (in) */
  int in, out;
} lac_neighbours;

typedef struct lac_dpsgd {
  lac_world *world;
  lac_traffic traffic;
  int64_t n;
  int phases, phase;          /* phase of the exchange that was begun last, -1 before the first */
  lac_neighbours *neighbours; /* (phases) */
  float *own;                 /* (n) */
  lac_collect inbox;
} lac_dpsgd;

static void dpsgd_destroy(void *state) {
  lac_dpsgd *old = state;
  if (!old) {
    return;
  }
  for (int p = 0; old->neighbours && p < old->phases; p++) {
    lac_free(old->neighbours[p].from);
    lac_free(old->neighbours[p].to);
    lac_free(old->neighbours[p].weight);
  }
  lac_collect_close(&old->inbox);
  lac_free(old->neighbours);
  lac_free(old->own);
  lac_free(old);
}

/* The row and the column of this worker. */
static lac_status find_neighbours(lac_context *context, const lac_weights *weights, int rank,
                                  lac_neighbours *neighbours) {
  int64_t begin = weights->start[rank], end = weights->start[rank + 1];
  LAC_TRY(LAC_NEW(context, end - begin, &neighbours->from));
  LAC_TRY(LAC_NEW(context, end - begin, &neighbours->weight));
  LAC_TRY(LAC_NEW(context, weights->n, &neighbours->to));
  for (int64_t e = begin; e < end; e++) {
    if (weights->column[e] == rank) {
      neighbours->itself = weights->weight[e];
    } else {
      neighbours->from[neighbours->in] = weights->column[e];
      neighbours->weight[neighbours->in++] = weights->weight[e];
    }
  }
  for (int32_t i = 0; i < weights->n; i++) {
    for (int64_t e = weights->start[i]; i != rank && e < weights->start[i + 1]; e++) {
      if (weights->column[e] == rank) {
        neighbours->to[neighbours->out++] = i;
      }
    }
  }
  return LAC_OK;
}

static lac_status fill(lac_context *context, const lac_topology *topology, lac_dpsgd *made) {
  int most = 0, rank = lac_world_rank(made->world);
  LAC_TRY(LAC_NEW(context, made->phases, &made->neighbours));
  LAC_TRY(LAC_NEW(context, made->n, &made->own));
  for (int p = 0; p < made->phases; p++) {
    LAC_TRY(find_neighbours(context, lac_topology_weights(topology, p), rank, &made->neighbours[p]));
    most = made->neighbours[p].in > most ? made->neighbours[p].in : most;
  }
  return lac_collect_open(context, made->world, LAC_TAG_EXCHANGE, (size_t)made->n * sizeof(float), most, &made->inbox);
}

static lac_status dpsgd_create(lac_context *context, lac_world *world, int64_t n, lac_traffic traffic,
                               const lac_process *process, void **state) {
  lac_dpsgd *made;
  const lac_topology *topology = lac_process_topology(process);
  *state = NULL;
  LAC_TRY(LAC_NEW(context, 1, &made));
  *made = (lac_dpsgd){.world = world, .traffic = traffic, .n = n, .phases = lac_topology_phases(topology), .phase = -1};
  lac_status status = fill(context, topology, made);
  if (status) {
    dpsgd_destroy(made);
    return status;
  }
  *state = made;
  return LAC_OK;
}

static lac_status dpsgd_begin(lac_context *context, void *state, int64_t round, const float *vector) {
  (void)context;
  lac_dpsgd *d = state;
  d->phase = (int)(round % d->phases);
  const lac_neighbours *neighbours = &d->neighbours[d->phase];
  memcpy(d->own, vector, (size_t)d->n * sizeof *vector);
  lac_collect_begin(&d->inbox, neighbours->in, neighbours->from);
  for (int k = 0; k < neighbours->out; k++) {
    LAC_TRY(lac_world_send_tagged(d->world, neighbours->to[k], LAC_TAG_EXCHANGE, vector, d->inbox.bytes, d->traffic));
  }
  return LAC_OK;
}

static lac_status dpsgd_poll(lac_context *context, void *state) {
  lac_dpsgd *d = state;
  return lac_collect_poll(context, &d->inbox);
}

static lac_status dpsgd_finish(lac_context *context, void *state, float *mean) {
  lac_dpsgd *d = state;
  LAC_TRY(lac_collect_finish(context, &d->inbox));
  const lac_neighbours *neighbours = &d->neighbours[d->phase];
  int rank = lac_world_rank(d->world), k = 0;
  memset(mean, 0, (size_t)d->n * sizeof *mean);
  for (int turn = 0; turn <= neighbours->in; turn++) {
    bool mine = turn == k && (k == neighbours->in || neighbours->from[k] > rank);
    const float *vector = mine ? d->own : d->inbox.data[k];
    float weight = (float)(mine ? neighbours->itself : neighbours->weight[k]);
    k += !mine;
    for (int64_t i = 0; i < d->n; i++) {
      mean[i] += weight * vector[i];
    }
  }
  return LAC_OK;
}

const lac_exchange_protocol lac_exchange_dpsgd = {
    "dpsgd", dpsgd_create, dpsgd_destroy, dpsgd_begin, dpsgd_poll, dpsgd_finish,
};
