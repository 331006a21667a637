/* Binary hash codes: learning them, storing the model, encoding vectors.
 *
 * A model maps a row x (D) to a code h(x) in {0, 1}^L, step(t) = 1 where t >= 0, and has a decoder f(z) = A z + a.
 * Codes are packed: (N, ceil(L / 8)) bytes, bit l of a code is bit l mod 8 of byte l / 8, padding bits are zero.
 *
 * Source: Carreira-Perpinan and Raziperchikolaei 2015 (binary autoencoder); Gong and Lazebnik 2011 (ITQ). */
#ifndef LACONIC_HASH_H
#define LACONIC_HASH_H

#include "laconic/dataset.h"
#include "laconic/mac.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lac_hash lac_hash;

typedef enum lac_hash_method { LAC_HASH_BA, LAC_HASH_ITQ, LAC_HASH_PCA, LAC_HASH_LSH } lac_hash_method;
typedef enum lac_hash_encoder { LAC_ENCODER_LINEAR, LAC_ENCODER_RBF } lac_hash_encoder;
typedef enum lac_hash_init { LAC_INIT_ITQ, LAC_INIT_PCA, LAC_INIT_RANDOM } lac_hash_init;

typedef struct lac_hash_options {
  int64_t bits;            /* L, 1 to 1024 */
  int method;              /* lac_hash_method */
  int encoder;             /* lac_hash_encoder */
  int init;                /* lac_hash_init */
  int64_t centres;         /* m of the RBF encoder */
  double width;            /* s of exp(-|x - c|^2 / (2 s^2)), in units of the data; 0: set from the data */
  double penalty;          /* decay of the encoders' weights for each block of 128 points, in thousandths of them */
  int64_t sample;          /* most points, over all shards, that ITQ works on */
  int64_t validation;      /* training points that serve as validation queries, and choose the start among several of
                            * ITQ; -1: chosen, 0: none, and the first start */
  int64_t validation_base; /* most points of the stated base sample that they are looked up in */
  int64_t validation_k;    /* nearest neighbours that count in the validation precision */
  int64_t relaxed_starts;  /* first Z steps that also start from the relaxed problem; only above 16 bits */
  int64_t subsample; /* one block of 128 rows in so many takes part before the last mac.full_iterations; 1: all do,
                      * 0: chosen, so that 15 points per input and 15,000 in all are left, at most 8 */
  int64_t threads;   /* per worker; results do not depend on it */
  int64_t seed;
  lac_mac_options mac;
} lac_hash_options;

/* The table of the options above: a function, since the size of an exported table would be part of the binary
 * interface. Borrowed. Local. */
LAC_API const lac_option *lac_hash_option_table(void);

typedef struct lac_hash_result {
  int64_t points, iterations;
  double e_ba; /* reconstruction error over total variance of the training data, decoder refitted to the final codes */
  double init_seconds, w_seconds, z_seconds, total_seconds; /* elapsed, this worker */
  int64_t messages, bytes;                                  /* the W steps' submodel traffic, summed over workers */
  int64_t control_messages, control_bytes;
  double score; /* validation precision; NaN without */
} lac_hash_result;

/* What training says while it runs, on worker 0 only. */
typedef struct lac_hash_progress {
  const char *phase;  /* "scan", "init", "train", "finish" */
  lac_mac_report mac; /* in phase "train" */
  double e_q, e_ba;   /* per point over variance */
  int64_t points;     /* over all shards; mac.points of them took part; 0 before they are counted */
} lac_hash_progress;

typedef void (*lac_hash_progress_fn)(void *user, const lac_hash_progress *progress);

/* Trains a model on P shards. shards (team->count) are the datasets of the shards here, all of D columns and none
 * empty; on a ring every worker passes its own and gets its own copy of the same model, in a serial run one process
 * passes all P. The same seed, P, shares and kernel set give the same model bit for bit in both, whatever the timing
 * and the number of threads. On INTERRUPTED *model is the best so far, or NULL when there is none yet. Collective over
 * the team. Errors: USAGE, INPUT (columns that differ, values not finite, all points equal, more bits than columns),
 * NUMERICAL, TIMEOUT, PEER, MEMORY. */
LAC_API LAC_MUST_USE lac_status lac_hash_train(lac_context *context, const lac_team *team,
                                               const lac_dataset *const *shards, const lac_hash_options *options,
                                               lac_hash_progress_fn progress, void *user, lac_hash **model,
                                               lac_hash_result *result);

/* Replaces what is left to the trainer (validation -1, subsample 0, sample 0 of a linear encoder, mu factor 0, batch 0)
 * by what it would choose for that many points, columns and workers: training with either gives the same model. Local.
 */
LAC_API void lac_hash_options_resolve(lac_hash_options *options, int64_t points, int64_t columns, int workers);

/* What training would take, from options and sizes alone. */
typedef struct lac_hash_estimate {
  int64_t submodels;       /* M; 0 for a method without W steps */
  int64_t submodel_bytes;  /* of the largest submodel while it travels, envelope included */
  int64_t messages, bytes; /* submodel traffic of one W step, summed over workers */
  int64_t memory;          /* most bytes that the worker needs beyond its mapped data, estimated, without the program's
                              own, validation and blocks in work, some 12 MB together */
} lac_hash_estimate;

/* Estimates a run of lac_hash_train over `workers` shards, the largest of which has `points` points of `columns`
 * columns and elements of `type`. Errors: those that lac_hash_train gives for such options and sizes. Local. */
LAC_API LAC_MUST_USE lac_status lac_hash_train_estimate(lac_context *context, const lac_hash_options *options,
                                                        int64_t points, int64_t columns, lac_type type, int workers,
                                                        lac_hash_estimate *estimate);

/* Splits `rows` points into contiguous shares proportional to speeds (P, all > 0; NULL: equal), each at least 1 point,
 * by largest remainder; counts (P) adds up to rows. Errors: USAGE when there are more workers than points. Local. */
LAC_API LAC_MUST_USE lac_status lac_hash_shares(lac_context *context, int64_t rows, int workers, const double *speeds,
                                                int64_t *counts);

/* Destroys and nulls; takes NULL. Local. */
LAC_API void lac_hash_destroy(lac_hash **model);

/* Reads and writes a safetensors file. Tensors of a linear encoder: encoder.weight (L, D), encoder.bias (L); of an RBF
 * one: encoder.centres (m, D), encoder.weight (L, m), encoder.bias (L); decoder.weight (D, L), decoder.bias (D); all
 * F32, in the units of the data. The metadata hold the method, the resolved options, the shares, the data's scaling and
 * fingerprint. Errors: INPUT, OUTPUT, IO, MEMORY. Local. */
LAC_API LAC_MUST_USE lac_status lac_hash_load(lac_context *context, const char *path, lac_hash **model);
LAC_API LAC_MUST_USE lac_status lac_hash_save(lac_context *context, const lac_hash *model, const char *path);

/* Local. */
LAC_API int64_t lac_hash_bits(const lac_hash *model);            /* L */
LAC_API int64_t lac_hash_columns(const lac_hash *model);         /* D */
LAC_API const char *lac_hash_method_name(const lac_hash *model); /* "ba", "itq", "pca", "lsh" */
LAC_API lac_hash_encoder lac_hash_encoder_kind(const lac_hash *model);

/* Borrowed parameters in the units of the data: weight (L, D) and bias (L) of a linear encoder (NULL for RBF); decoder
 * weight (D, L) and bias (D). Local. */
LAC_API const float *lac_hash_encoder_weight(const lac_hash *model);
LAC_API const float *lac_hash_encoder_bias(const lac_hash *model);
LAC_API const float *lac_hash_decoder_weight(const lac_hash *model);
LAC_API const float *lac_hash_decoder_bias(const lac_hash *model);

/* Metadata as key and value texts, stored with the model. lac_hash_meta gives NULL for an unknown key; borrowed. Local.
 */
LAC_API const char *lac_hash_meta(const lac_hash *model, const char *key);
LAC_API LAC_MUST_USE lac_status lac_hash_set_meta(lac_context *context, lac_hash *model, const char *key,
                                                  const char *value);

/* Codes of rows [first, first + count): codes (count, ceil(L / 8)). `threads` workers share the rows. Errors: INPUT
 * when the columns differ or a value is not finite (its row is named), IO, MEMORY, INTERRUPTED. Local. */
LAC_API LAC_MUST_USE lac_status lac_hash_encode(lac_context *context, const lac_hash *model, const lac_dataset *dataset,
                                                int64_t first, int64_t count, int64_t threads, uint8_t *codes);

/* Mean squared reconstruction error per point, |x - f(h(x))|^2, of all rows, given their codes. Local. */
LAC_API LAC_MUST_USE lac_status lac_hash_error(lac_context *context, const lac_hash *model, const lac_dataset *dataset,
                                               const uint8_t *codes, int64_t threads, double *error);

/* Writes the encoder as a FAISS index file: IndexPreTransform(LinearTransform, IndexLSH), trained and empty. Errors:
 * UNSUPPORTED for an RBF encoder, which is no FAISS transform; OUTPUT, IO. Local. */
LAC_API LAC_MUST_USE lac_status lac_faiss_write_encoder(lac_context *context, const lac_hash *model, const char *path);

/* Writes codes (rows, bits / 8) as a FAISS IndexBinaryFlat file. Errors: USAGE when bits is no multiple of 8; OUTPUT,
 * IO. Local. */
LAC_API LAC_MUST_USE lac_status lac_faiss_write_binary(lac_context *context, const uint8_t *codes, int64_t rows,
                                                       int64_t bits, const char *path);

#ifdef __cplusplus
}
#endif
#endif
