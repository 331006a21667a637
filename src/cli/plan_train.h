/* plan train in parts: plan_train.c has the options and what is compared, plan_train_rows.c finds the rows of the
 * table, plan_train_report.c says what they mean. */
#ifndef LACONIC_CLI_PLAN_TRAIN_H
#define LACONIC_CLI_PLAN_TRAIN_H

#include "cli/command.h"
#include "cli/data_options.h"
#include "cli/network.h"
#include "cli/output.h"
#include "cli/plan_report.h"
#include "cli/plan_simulate.h"
#include "cli/quantity.h"

typedef struct lac_plan_train_options {
  lac_common_options common;
  lac_replica_options replica;
  lac_net_options net;
  lac_plan_cluster_options where;
  char *model, *shape, *workers, *compute, *update, *calibration, *compare, *plot;
  int64_t classes, parameters, images, batch, gradients, rehearsed, vector, seed;
  double width;
  bool rehearse, simulate;
} lac_plan_train_options;

/* A method with its exchange. */
typedef struct lac_plan_candidate {
  int method, protocol;
  int topology;   /* -1: that of --topology or --graph */
  int64_t period; /* 0: that of --period */
  char label[72];
} lac_plan_candidate;

enum { LAC_PLAN_CANDIDATES = 32 };

typedef struct lac_plan_train_run {
  lac_session *session;
  const lac_plan_train_options *options;
  lac_plan_candidate candidates[LAC_PLAN_CANDIDATES];
  int candidate_count;
  int64_t sizes[LAC_SIZES];
  int size_count;
  lac_plan_cluster where;
  double gradient, update; /* seconds */
  lac_basis basis;         /* of gradient */
  int64_t parameters;
  lac_image_shape shape;
  char *layers;       /* of --model; NULL */
  double activations; /* bytes of those of a batch, at most */
  lac_plan_row *rows; /* (count) */
  double *thousand;   /* (count): seconds of 1,000 gradients of each */
  double *mixing;     /* (count): rounds, NaN where they are not known */
  double *gradients;  /* (count): of each replica in the job */
  int *of;            /* (count): which candidate */
  int count;
  double alone; /* seconds of a gradient in a real run of one worker of this candidate; NaN: none */
} lac_plan_train_run;

enum { LAC_PLAN_SOURCES = 4 }; /* of rows: formula, sim, smpi, real */

/* The trainer's options with the method and exchange of a candidate; borrowed texts. */
lac_replica_options lac_plan_train_options_of(const lac_plan_train_run *run, const lac_plan_candidate *c);
const char *lac_plan_train_method(int method);
/* As --classes says, or as the network usually has. */
int64_t lac_plan_train_classes(const lac_plan_train_options *options);
/* Gradients of an outer step. */
double lac_plan_train_inner(const lac_replica_options *options);

/* Everything that cannot be is found before the first row takes its time. */
LAC_MUST_USE lac_status lac_plan_train_check(const lac_plan_train_run *run);
/* Room for all rows. */
LAC_MUST_USE lac_status lac_plan_train_open(lac_plan_train_run *run);

/* The next row, of one candidate and size, from each source. The real one stands beside the formula's row of that
 * index. */
LAC_MUST_USE lac_status lac_plan_train_formula(lac_plan_train_run *run, int of, int workers);
LAC_MUST_USE lac_status lac_plan_train_rehearse(lac_plan_train_run *run, int of, int workers);
LAC_MUST_USE lac_status lac_plan_train_simulate(lac_plan_train_run *run, int of, int workers);
LAC_MUST_USE lac_status lac_plan_train_add_real(lac_plan_train_run *run, int of, int workers, int formula);

/* Picture, table, and which of the candidates to take. */
LAC_MUST_USE lac_status lac_plan_train_report(lac_plan_train_run *run);

#endif
