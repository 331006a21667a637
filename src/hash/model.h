/* The hash model's inside, for the rooms' own files. */
#ifndef LACONIC_HASH_MODEL_H
#define LACONIC_HASH_MODEL_H

#include "laconic/hash.h"
#include "laconic/tensors.h"

struct lac_hash {
  int64_t bits, columns, features; /* L, D, and F: the encoder's inputs, D (linear) or m (RBF) */
  lac_hash_method method;
  lac_hash_encoder encoder;
  double width;        /* s of the RBF, in units of the data */
  float *centres;      /* (m, D), RBF only */
  float *weight;       /* (L, F), RBF: on features scaled to [0, 1] */
  float *bias;         /* (L) */
  float *decoder;      /* (D, L) */
  float *offset;       /* (D) */
  lac_text_pair *meta; /* owned */
  int64_t meta_count;
};

/* A model of zeros; `centres` is m for an RBF encoder and 0 for a linear one. Errors: MEMORY. */
LAC_MUST_USE lac_status lac_hash_create(lac_context *context, int64_t bits, int64_t columns, lac_hash_method method,
                                        int64_t centres, lac_hash **model);

/* The model in an open file; `path` stands in messages. Errors: INPUT, IO, MEMORY. */
LAC_MUST_USE lac_status lac_hash_from_tensors(lac_context *context, const char *path, const lac_tensors *file,
                                              lac_hash **model);

/* RBF features, as bytes both in training and in encoding. Those of a row do not depend on the rows beside it, so that
 * a code does not depend on where it is computed. */
typedef struct lac_rbf lac_rbf;

/* Prepares features of width s at centres (m, D), which are borrowed and must outlive it. Errors: MEMORY. */
LAC_MUST_USE lac_status lac_rbf_create(lac_context *context, const float *centres, int64_t m, int64_t columns,
                                       double width, lac_rbf **rbf);
void lac_rbf_destroy(lac_rbf **rbf);

/* Floats of scratch that lac_rbf_features needs, whatever n. */
int64_t lac_rbf_scratch(const lac_rbf *rbf);

/* out (n, m) = round(255 exp(-|x - c|^2 / (2 s^2))) of n rows x (n, D), which must be finite. Callable from several
 * threads at once, each with its own scratch. */
void lac_rbf_features(const lac_rbf *rbf, const float *x, int64_t n, float *scratch, uint8_t *out);

/* Whether a dataset has the model's columns. Errors: INPUT. */
LAC_MUST_USE lac_status lac_hash_check_columns(lac_context *context, const lac_hash *model, const lac_dataset *dataset);

/* Whether x (count, D), read from `dataset` at row `first`, is finite. Errors: INPUT naming row and column. */
LAC_MUST_USE lac_status lac_check_finite(lac_context *context, const lac_dataset *dataset, int64_t first,
                                         const float *x, int64_t count);

/* The names of methods, encoders and starts in the order of their enumerations, ending with NULL. */
extern const char *const lac_hash_method_names[];
extern const char *const lac_hash_encoder_names[];
extern const char *const lac_hash_init_names[];

#endif
