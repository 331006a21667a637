/* What work takes on a machine: measured once, kept in a file, and read by the predictions of laconic/plan.h.
 *
 * A calibration is a list of measured cases. Of hash codes a case is (columns, element type, bits, encoder): seconds
 * per point of each part of a run, found from short runs of lac_hash_train on drawn points; of networks (model, batch,
 * precision): seconds of a gradient; of a network of workers (back end): seconds of a message and of a byte. A question
 * that no case answers exactly is answered from the nearest one, scaled by arithmetic, and says so; without any case
 * figures of a common processor are assumed.
 *
 * The file is JSON: {"laconic", "machine", "hash": [...], "gradients": [...], "links": [...]}. */
#ifndef LACONIC_CALIBRATION_H
#define LACONIC_CALIBRATION_H

#include <stdbool.h>
#include <stdint.h>

#include "laconic/dataset.h"
#include "laconic/hash.h"
#include "laconic/mac.h"
#include "laconic/net.h"
#include "laconic/world.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a figure rests on, the firmest first. */
typedef enum lac_basis {
  LAC_BASIS_MEASURED, /* on the calibration's machine, this very case */
  LAC_BASIS_SCALED,   /* from another measured case, by the ratio of their arithmetic */
  LAC_BASIS_GIVEN,    /* by the caller */
  LAC_BASIS_ASSUMED   /* a common processor's */
} lac_basis;
/* "measured", "scaled", "given", "assumed". Local. */
LAC_API const char *lac_basis_name(lac_basis basis);

/* First iterations of training hash codes that are counted apart: as many as a default run makes on a subsample. */
enum { LAC_HASH_EARLY = 8 };

/* What training hash codes takes, in seconds on one core of a machine of speed 1. */
typedef struct lac_hash_costs {
  lac_mac_costs mac;
  double start_point;     /* per point of a shard, once: statistics and the first codes */
  double start_fixed;     /* once, whatever the number of points or of workers: the start on its sample */
  double iteration_point; /* per point and iteration, beside the W and Z steps: keeping and measuring what they made */
  double iteration_fixed; /* per iteration: solving, validation */
  double finish_point;    /* per point of a shard, once: the last fit */
  double finish_fixed;
  lac_basis basis;
} lac_hash_costs;

typedef struct lac_calibration lac_calibration;

/* An empty calibration of this machine and version. Errors: MEMORY. Local. */
LAC_API LAC_MUST_USE lac_status lac_calibration_create(lac_context *context, lac_calibration **calibration);
/* Errors: INPUT naming file and key, found and expected; IO; MEMORY. Local. */
LAC_API LAC_MUST_USE lac_status lac_calibration_load(lac_context *context, const char *path,
                                                     lac_calibration **calibration);
/* Whole or not at all. Errors: OUTPUT, MEMORY. Local. */
LAC_API LAC_MUST_USE lac_status lac_calibration_save(lac_context *context, const lac_calibration *calibration,
                                                     const char *path);
/* Destroys and nulls; takes NULL. Local. */
LAC_API void lac_calibration_destroy(lac_calibration **calibration);

/* Whether it was made on this machine (processor and cores) by this version; when not, `reason` (size) says in a line
 * what was found and what is here. Local. */
LAC_API bool lac_calibration_is_here(const lac_calibration *calibration, char *reason, size_t size);

/* A case of hash codes: what identifies it. */
typedef struct lac_hash_case {
  int64_t columns; /* D */
  lac_type type;   /* LAC_U8, LAC_F32, … */
  int64_t bits;    /* L */
  int encoder;     /* lac_hash_encoder */
} lac_hash_case;

/* Measures a case by short serial runs of the trainer on drawn points, some seconds of one core, and puts it into the
 * calibration, in place of an earlier one of the same. `options` has the bits, the encoder and whatever else of the
 * method; its mac.iterations, mac.batch and threads are replaced. Errors: those of lac_hash_train. Local. */
LAC_API LAC_MUST_USE lac_status lac_calibration_measure_hash(lac_context *context, lac_calibration *calibration,
                                                             int64_t columns, lac_type type,
                                                             const lac_hash_options *options);

/* The same on rows of a dataset, evenly spaced: what a Z step takes depends on the points. The case's type is u8 for
 * bytes that are mapped and f32, to which rows are converted, for all others. Errors: INPUT for fewer than 768 rows;
 * those of lac_hash_train. Local. */
LAC_API LAC_MUST_USE lac_status lac_calibration_measure_base(lac_context *context, lac_calibration *calibration,
                                                             const lac_dataset *base, const lac_hash_options *options);

/* Measures the gradient of a batch of a network, called `model` in the file: the median of several, in seconds of one
 * core. Batch, precision and back end are the net's. Errors: those of lac_net_gradient, MEMORY. Local. */
LAC_API LAC_MUST_USE lac_status lac_calibration_measure_gradient(lac_context *context, lac_calibration *calibration,
                                                                 const char *model, lac_net *net);

/* Measures what messages take between workers 0 and 1 of this world: a line fitted to the times of round trips of
 * several sizes, the median of many. The world's back end names the case. With one worker there is nothing to measure.
 * Only worker 0's calibration (others pass NULL) takes it. Collective. */
LAC_API LAC_MUST_USE lac_status lac_calibration_measure_link(lac_context *context, lac_world *world,
                                                             lac_calibration *calibration);

/* The answer to a question, with what it rests on. calibration NULL: assumed. Local. */
LAC_API void lac_calibration_hash(const lac_calibration *calibration, const lac_hash_case *which,
                                  lac_hash_costs *costs);
/* Seconds of a gradient of a batch; `flops` is that of lac_net_flops, by which other cases are scaled. Local. */
LAC_API double lac_calibration_gradient(const lac_calibration *calibration, const char *model, int64_t batch,
                                        int precision, double flops, lac_basis *basis);
/* Seconds of a message and of a byte under a back end ("local", "mpi"); false when it has not been measured. Local. */
LAC_API bool lac_calibration_link(const lac_calibration *calibration, const char *backend, double *message,
                                  double *byte);

#ifdef __cplusplus
}
#endif
#endif
