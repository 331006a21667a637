/* A calibration: what this machine is, and the cases that were measured on it.
 *
 * Files: calibration.c keeps the cases and answers questions, assumed.c has the arithmetic by which an answer is scaled
 * or assumed, calibration_file.c reads and writes, measure_hash.c, measure_gradient.c and measure_link.c measure,
 * draw.c makes the points for that, fit.c finds costs from timings. */
#ifndef LACONIC_PLAN_CALIBRATION_H
#define LACONIC_PLAN_CALIBRATION_H

#include <stdio.h>

#include "laconic/calibration.h"

enum { LAC_CALIBRATION_TEXT = 128, LAC_CALIBRATION_CASES = 10000 };

typedef struct lac_hash_entry {
  lac_hash_case which;
  int64_t points; /* the most that a run was timed with */
  lac_hash_costs costs;
} lac_hash_entry;

typedef struct lac_gradient_entry {
  char model[LAC_CALIBRATION_TEXT];
  int64_t batch;
  int precision;
  char backend[LAC_CALIBRATION_TEXT]; /* of lac_net_backend_name */
  int64_t parameters;
  double flops; /* of lac_net_flops */
  double seconds;
} lac_gradient_entry;

typedef struct lac_link_entry {
  char backend[LAC_CALIBRATION_TEXT];
  double message, byte;
} lac_link_entry;

typedef struct lac_machine {
  char version[LAC_CALIBRATION_TEXT]; /* of laconic */
  char processor[LAC_CALIBRATION_TEXT], kernels[LAC_CALIBRATION_TEXT];
  int64_t cores;
} lac_machine;

struct lac_calibration {
  lac_machine machine;
  lac_hash_entry *hash;
  lac_gradient_entry *gradients;
  lac_link_entry *links;
  int64_t hash_count, gradient_count, link_count;
};

/* The machine that this runs on. The processor's name is the "model name" of /proc/cpuinfo, else the architecture of
 * uname; cores are those online. */
void lac_machine_here(lac_machine *machine);

/* Adds a case; one that was there for the same question is replaced, and *replaced (may be NULL) says so. Errors:
 * MEMORY, USAGE beyond LAC_CALIBRATION_CASES. */
LAC_MUST_USE lac_status lac_calibration_put_hash(lac_context *context, lac_calibration *calibration,
                                                 const lac_hash_entry *entry, bool *replaced);
LAC_MUST_USE lac_status lac_calibration_put_gradient(lac_context *context, lac_calibration *calibration,
                                                     const lac_gradient_entry *entry, bool *replaced);
LAC_MUST_USE lac_status lac_calibration_put_link(lac_context *context, lac_calibration *calibration,
                                                 const lac_link_entry *entry, bool *replaced);

/* A text for an entry, at most LAC_CALIBRATION_TEXT - 1 bytes of it. */
void lac_calibration_text(char text[LAC_CALIBRATION_TEXT], const char *from);

/* What a common processor takes for a case, by the arithmetic of each part: all of them above 0 but the decoder's. */
void lac_hash_assumed(const lac_hash_case *which, lac_hash_costs *costs);
double lac_gradient_assumed(int64_t batch, double flops);

/* The cases of another size: each part times the ratio of what lac_hash_assumed says of the two. */
void lac_hash_scale(const lac_hash_entry *from, const lac_hash_case *to, lac_hash_costs *costs);

/* Reads a file's content; `path` is for messages. */
LAC_MUST_USE lac_status lac_calibration_parse(lac_context *context, const char *path, const void *bytes, size_t size,
                                              lac_calibration **calibration);
/* Writes what lac_calibration_parse reads. Errors: MEMORY; those of the stream are left to its owner. */
LAC_MUST_USE lac_status lac_calibration_write(lac_context *context, const lac_calibration *calibration, FILE *file);

/* Points to measure with: `rows` of `columns` in a piece of memory for lac_free, byte values in any type. A mixture of
 * normal distributions whose variance decays over directions, with some noise in all, so that training neither stops
 * early nor finds nothing to do. Depends on the sizes alone. */
LAC_MUST_USE lac_status lac_draw_points(lac_context *context, lac_type type, int64_t rows, int64_t columns,
                                        void **points);

/* A batch for a network: normally distributed pixels, labels at random. Clear it also after a failure. Errors: MEMORY.
 */
typedef struct lac_drawn_batch {
  float *pictures; /* (batch, C, H, W) */
  int32_t *labels; /* (batch) */
} lac_drawn_batch;
LAC_MUST_USE lac_status lac_draw_batch(lac_context *context, const lac_net *net, lac_drawn_batch *batch);
void lac_drawn_batch_clear(lac_drawn_batch *batch);

/* Seconds that this thread has computed. */
double lac_thread_seconds(void);

/* Five digits of a measured figure: there are no more in it. */
double lac_measured(double value);

#endif
