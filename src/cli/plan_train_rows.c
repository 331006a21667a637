/* The rows of plan train's table: by formula, by rehearsal, under SMPI and by real runs. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "cli/commands.h"
#include "cli/plan_train.h"

/* Gradients of an outer step. */
double lac_plan_train_inner(const lac_replica_options *options) {
  bool nested = options->method == LAC_METHOD_ENTROPY || options->method == LAC_METHOD_PARLE;
  return nested ? (double)options->inner_steps : 1;
}

/* Gradients of each replica in the job: as train counts epochs. */
static lac_status gradients_of(const lac_plan_train_run *run, const lac_replica_options *options, int workers,
                               double *gradients) {
  double share = options->method == LAC_METHOD_SGD ? 1.0 / workers : 1;
  double batches = floor(ceil(share * (double)run->options->images - 1e-9) / (double)run->options->batch);
  *gradients = (double)run->options->gradients;
  if (*gradients > 0) {
    return LAC_OK;
  }
  if (batches < 1) {
    return lac_fail(run->session->context, LAC_E_USAGE,
                    "--images: found %" PRId64 " for %d workers, expected at least a batch of %" PRId64
                    " for each; --gradients does without",
                    run->options->images, workers, run->options->batch);
  }
  *gradients = ceil(options->epochs * batches) * lac_plan_train_inner(options);
  return LAC_OK;
}

static lac_cluster cluster_of(const lac_plan_train_run *run) {
  lac_cluster cluster = run->where.cluster;
  cluster.seed = run->options->seed;
  return cluster;
}

/* The next row, which is not counted yet, with room for its links where they are asked for. */
static lac_status next_row(const lac_plan_train_run *run, int workers, lac_plan_row **row) {
  void *memory = NULL;
  *row = &run->rows[run->count];
  if (run->options->where.links) {
    CLI_TRY(lac_session_allocate(run->session, workers, sizeof(lac_link), &memory));
    (*row)->links = memory;
  }
  return LAC_OK;
}

static json_t *extra_of(const lac_plan_train_run *run, int at) {
  const lac_plan_candidate *c = &run->candidates[run->of[at]];
  const lac_topology_options *topology = &run->options->replica.exchange.topology;
  int kind = c->topology >= 0 ? c->topology : topology->kind;
  const char *graph = !lac_protocol_on_topology(c->protocol) ? NULL
                      : topology->graph && c->topology < 0   ? "file"
                                                             : lac_topology_kind_name(kind);
  return json_pack("{s:s, s:s, s:s?, s:o, s:o, s:s}", "method", lac_plan_train_method(c->method), "exchange",
                   lac_protocol_names()[c->protocol], "topology", graph, "seconds_per_1000_gradients",
                   lac_json_real(run->thousand[at]), "t_mix", lac_json_real(run->mixing[at]), "basis",
                   lac_basis_name(run->basis));
}

/* Counts the next row, whose plan is known, of so many gradients of each replica. */
static void add_row(lac_plan_train_run *run, int of, const char *source, double gradients, double mixing) {
  lac_plan_row *row = &run->rows[run->count];
  row->source = source;
  row->label = run->candidate_count > 1 ? run->candidates[of].label : NULL;
  run->thousand[run->count] = 1000 * row->plan.seconds.total / gradients;
  run->mixing[run->count] = mixing;
  run->gradients[run->count] = gradients;
  run->of[run->count] = of;
  lac_plan_print_json(run->session, row, extra_of(run, run->count));
  run->count++;
}

lac_status lac_plan_train_formula(lac_plan_train_run *run, int of, int workers) {
  lac_replica_options options = lac_plan_train_options_of(run, &run->candidates[of]);
  lac_cluster cluster = cluster_of(run);
  lac_replica_job job = {
      .options = &options, .gradient = run->gradient, .update = run->update, .parameters = run->parameters};
  lac_mixing_time time = {.rounds = NAN, .upper = NAN};
  lac_plan_row *row;
  CLI_TRY(gradients_of(run, &options, workers, &job.gradients));
  CLI_TRY(next_row(run, workers, &row));
  CLI_TRY(lac_plan_replicas(run->session->context, &job, &cluster, workers, &row->plan, row->links));
  row->plan.memory += run->activations;
  CLI_TRY(lac_mixing_foretell(run->session->context, &options, workers, &time));
  add_row(run, of, "formula", job.gradients, isfinite(time.rounds) ? time.rounds : time.upper);
  return LAC_OK;
}

/* The clock does not see whether a long vector travels fast or a short one slowly: a rehearsal moves short ones. Under
 * SMPI every message has an envelope, beside which its part of a vector must be long. */
static int64_t short_vector(const lac_plan_train_run *run, bool enveloped, int workers) {
  enum { ENOUGH = 4096, LEAST = 8, LEAST_ENVELOPED = 1024 };
  int64_t least = enveloped ? LEAST_ENVELOPED : LEAST, each = ENOUGH / workers;
  int64_t count = run->options->vector ? run->options->vector : workers * (each > least ? each : least);
  return count < run->parameters ? count : run->parameters;
}

/* Under SMPI all ranks come here, each as its part of the rehearsal. */
typedef struct rehearsal {
  const lac_replica_job *job;
  const lac_cluster *cluster;
  int64_t gradients;
  lac_plan *plan;
  lac_link *links; /* NULL */
} rehearsal;

static lac_status rehearse_rank(lac_world *world, void *argument) {
  rehearsal *mine = argument; /* one for each rank: they are processes */
  return lac_plan_rehearse_replicas(lac_world_context(world), mine->job, mine->cluster, world, lac_world_size(world),
                                    mine->gradients, mine->plan, mine->links);
}

static lac_status rehearse_job(const lac_plan_train_run *run, rehearsal *mine, int workers) {
  lac_context *context = run->session->context;
  if (!lac_world_smpi()) {
    return lac_plan_rehearse_replicas(context, mine->job, mine->cluster, NULL, workers, mine->gradients, mine->plan,
                                      mine->links);
  }
  lac_world_options options = {.backend = "mpi", .workers = workers, .timeout_ms = LAC_PATIENCE_MS};
  return lac_world_run(context, &options, rehearse_rank, mine);
}

lac_status lac_plan_train_rehearse(lac_plan_train_run *run, int of, int workers) {
  lac_replica_options options = lac_plan_train_options_of(run, &run->candidates[of]);
  lac_cluster cluster = cluster_of(run);
  int64_t count = short_vector(run, lac_world_smpi(), workers);
  double part = (double)run->parameters / (double)count;
  cluster.bandwidth /= part;
  lac_replica_job job = {.options = &options, .gradient = run->gradient, .update = run->update, .parameters = count};
  CLI_TRY(gradients_of(run, &options, workers, &job.gradients));
  lac_plan_row *row;
  CLI_TRY(next_row(run, workers, &row));
  rehearsal mine = {
      .job = &job, .cluster = &cluster, .gradients = run->options->rehearsed, .plan = &row->plan, .links = row->links};
  CLI_TRY(rehearse_job(run, &mine, workers));
  row->plan.bytes *= part;
  row->plan.link_bytes *= part;
  row->plan.memory = row->plan.memory * part + run->activations;
  for (int i = 0; row->links && i < workers; i++) {
    row->links[i].bytes *= part;
  }
  add_row(run, of, lac_world_smpi() ? "smpi" : "sim", job.gradients,
          run->count ? run->mixing[run->count - 1] : (double)NAN);
  return LAC_OK;
}

/* The simulated ranks move short vectors, too: the links that they are given are as much slower, but for those of a
 * platform file. */
lac_status lac_plan_train_simulate(lac_plan_train_run *run, int of, int workers) {
  static const char *const left_out[] = {"compare", "method", "exchange", "period", "rehearse-vector", NULL};
  static const char *const left_out_with_graph[] = {"compare",         "method",   "exchange", "period",
                                                    "rehearse-vector", "topology", "graph",    NULL};
  const lac_plan_candidate *c = &run->candidates[of];
  lac_replica_options options = lac_plan_train_options_of(run, c);
  lac_plan_cluster where = run->where;
  int64_t count = where.hosts ? run->parameters : short_vector(run, true, workers);
  double gradients;
  char vector[48], method[48], exchange[48], period[48], topology[48] = "--quiet";
  snprintf(vector, sizeof vector, "--rehearse-vector=%" PRId64, count);
  snprintf(method, sizeof method, "--method=%s", lac_plan_train_method(c->method));
  snprintf(exchange, sizeof exchange, "--exchange=%s", lac_protocol_names()[c->protocol]);
  snprintf(period, sizeof period, "--period=%" PRId64, options.exchange.period);
  if (c->topology >= 0) {
    snprintf(topology, sizeof topology, "--topology=%s", lac_topology_kind_name(c->topology));
  }
  const char *const *left = c->topology >= 0 ? left_out_with_graph : left_out;
  const char *const added[] = {
      vector, method, exchange, period, topology, options.overlap ? "--overlap" : "--no-overlap", NULL};
  where.cluster.bandwidth *= (double)count / (double)run->parameters;
  json_t *line;
  lac_plan_row *row;
  CLI_TRY(gradients_of(run, &options, workers, &gradients));
  CLI_TRY(next_row(run, workers, &row));
  CLI_TRY(lac_simulate(run->session, &lac_command_plan_train, run->options, left, added, &run->options->where, &where,
                       workers, &line));
  lac_plan_read_json(line, &row->plan, row->links);
  json_decref(line);
  add_row(run, of, "smpi", gradients, run->mixing[run->count - 1]);
  return LAC_OK;
}

/* Where this machine has the cores and the memory, and the prediction the patience. */
lac_status lac_plan_train_add_real(lac_plan_train_run *run, int of, int workers, int formula) {
  const lac_plan_train_options *given = run->options;
  lac_replica_options options = lac_plan_train_options_of(run, &run->candidates[of]);
  lac_replica_job job = {
      .options = &options, .gradient = run->gradient, .update = run->update, .parameters = run->parameters};
  double each = run->thousand[formula] / 1000, made;
  CLI_TRY(gradients_of(run, &options, workers, &job.gradients));
  CLI_TRY(lac_plan_trial_gradients(run->session->context, &job, workers, given->rehearsed, &made));
  if (!run->layers || given->compute ||
      !lac_plan_fits_here(&given->where, workers, run->rows[formula].plan.memory, made * each)) {
    return LAC_OK;
  }
  lac_plan_network network = {.layers = run->layers,
                              .name = given->model,
                              .shape = run->shape,
                              .classes = lac_plan_train_classes(given),
                              .batch = given->batch,
                              .options = &given->net};
  lac_plan_row *row;
  CLI_TRY(next_row(run, workers, &row));
  CLI_TRY(
      lac_plan_real_replicas(run->session->context, &job, &network, workers, given->rehearsed, &row->plan, row->links));
  row->plan.memory += run->activations;
  double took = row->plan.seconds.total / job.gradients;
  run->alone = workers == 1 ? took : run->alone;
  row->plan.speedup = workers * run->alone / took;
  row->plan.efficiency = row->plan.speedup / workers;
  add_row(run, of, "real", job.gradients, run->mixing[formula]);
  return LAC_OK;
}

/* Everything that cannot be is found before the first row takes its time. */
lac_status lac_plan_train_check(const lac_plan_train_run *run) {
  for (int c = 0; c < run->candidate_count; c++) {
    for (int s = 0; s < run->size_count; s++) {
      lac_replica_options options = lac_plan_train_options_of(run, &run->candidates[c]);
      double gradients;
      CLI_TRY(lac_replica_check(run->session->context, &options, (int)run->sizes[s]));
      CLI_TRY(gradients_of(run, &options, (int)run->sizes[s], &gradients));
    }
  }
  const double vectors = 24 * sizeof(float); /* of a worker, and those on their way to it */
  int most = (int)run->sizes[run->size_count - 1];
  if (run->options->simulate) {
    CLI_TRY(lac_simulation_check(run->session, most, vectors * (double)short_vector(run, true, most)));
  }
  double bytes = vectors * (double)short_vector(run, lac_world_smpi(), most);
  return run->options->rehearse ? lac_rehearsal_check(run->session, most, bytes) : LAC_OK;
}

lac_status lac_plan_train_open(lac_plan_train_run *run) {
  int64_t most = (int64_t)run->candidate_count * run->size_count * LAC_PLAN_SOURCES;
  void *rows, *numbers, *of;
  CLI_TRY(lac_session_allocate(run->session, most, sizeof *run->rows, &rows));
  run->rows = rows;
  CLI_TRY(lac_session_allocate(run->session, 3 * most, sizeof(double), &numbers));
  run->thousand = numbers;
  run->mixing = run->thousand + most;
  run->gradients = run->mixing + most;
  CLI_TRY(lac_session_allocate(run->session, most, sizeof *run->of, &of));
  run->of = of;
  return LAC_OK;
}
