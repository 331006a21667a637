#include "hash/model.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "store/safetensors.h"

const char *const lac_hash_method_names[] = {"ba", "itq", "pca", "lsh", NULL};
const char *const lac_hash_encoder_names[] = {"linear", "rbf", NULL};
const char *const lac_hash_init_names[] = {"itq", "pca", "random", NULL};

enum { BITS_LIMIT = 1024 };

/* Metadata keys of what the struct itself holds. All begin with this, and no other key may. */
static const char reserved[] = "laconic.";
static const char kind_key[] = "laconic.kind", version_key[] = "laconic.version", method_key[] = "laconic.method",
                  encoder_key[] = "laconic.encoder", width_key[] = "laconic.width";
static const char kind_value[] = "hash", version_value[] = "1";

/* ---- Making ---- */

lac_status lac_hash_create(lac_context *context, int64_t bits, int64_t columns, lac_hash_method method, int64_t centres,
                           lac_hash **model) {
  *model = NULL;
  lac_hash *made;
  LAC_TRY(LAC_NEW(context, 1, &made));
  made->bits = bits;
  made->columns = columns;
  made->features = centres ? centres : columns;
  made->method = method;
  made->encoder = centres ? LAC_ENCODER_RBF : LAC_ENCODER_LINEAR;
  made->width = centres ? 1 : 0;
  lac_status status = LAC_OK;
  if (centres) {
    LAC_TRY_GOTO(status, LAC_NEW(context, centres * columns, &made->centres), failed);
  }
  LAC_TRY_GOTO(status, LAC_NEW(context, bits * made->features, &made->weight), failed);
  LAC_TRY_GOTO(status, LAC_NEW(context, bits, &made->bias), failed);
  LAC_TRY_GOTO(status, LAC_NEW(context, columns * bits, &made->decoder), failed);
  LAC_TRY_GOTO(status, LAC_NEW(context, columns, &made->offset), failed);
  *model = made;
  return LAC_OK;
failed:
  lac_hash_destroy(&made);
  return status;
}

void lac_hash_destroy(lac_hash **model) {
  lac_hash *gone = *model;
  if (!gone) {
    return;
  }
  for (int64_t i = 0; i < gone->meta_count; i++) {
    free((char *)gone->meta[i].key);
    free((char *)gone->meta[i].value);
  }
  free(gone->meta);
  lac_free(gone->centres);
  lac_free(gone->weight);
  lac_free(gone->bias);
  lac_free(gone->decoder);
  lac_free(gone->offset);
  lac_free(gone);
  *model = NULL;
}

int64_t lac_hash_bits(const lac_hash *model) {
  return model->bits;
}

int64_t lac_hash_columns(const lac_hash *model) {
  return model->columns;
}

const char *lac_hash_method_name(const lac_hash *model) {
  return lac_hash_method_names[model->method];
}

lac_hash_encoder lac_hash_encoder_kind(const lac_hash *model) {
  return model->encoder;
}

const float *lac_hash_encoder_weight(const lac_hash *model) {
  return model->encoder == LAC_ENCODER_LINEAR ? model->weight : NULL;
}

const float *lac_hash_encoder_bias(const lac_hash *model) {
  return model->encoder == LAC_ENCODER_LINEAR ? model->bias : NULL;
}

const float *lac_hash_decoder_weight(const lac_hash *model) {
  return model->decoder;
}

const float *lac_hash_decoder_bias(const lac_hash *model) {
  return model->offset;
}

/* ---- Metadata ---- */

static lac_text_pair *find_pair(const lac_hash *model, const char *key) {
  for (int64_t i = 0; i < model->meta_count; i++) {
    if (strcmp(model->meta[i].key, key) == 0) {
      return &model->meta[i];
    }
  }
  return NULL;
}

const char *lac_hash_meta(const lac_hash *model, const char *key) {
  const lac_text_pair *pair = find_pair(model, key);
  return pair ? pair->value : NULL;
}

static lac_status add_pair(lac_context *context, lac_hash *model, const char *key, char *value) {
  char *name;
  LAC_TRY(lac_copy_text(context, key, &name));
  int64_t count = model->meta_count;
  if ((count & (count - 1)) == 0) { /* room for a power of two */
    size_t bytes = (size_t)(count ? 2 * count : 1) * sizeof *model->meta;
    lac_text_pair *grown = realloc(model->meta, bytes);
    if (!grown) {
      free(name);
      return lac_fail(context, LAC_E_MEMORY, "cannot allocate %zu bytes", bytes);
    }
    model->meta = grown;
  }
  model->meta[model->meta_count++] = (lac_text_pair){name, value};
  return LAC_OK;
}

lac_status lac_hash_set_meta(lac_context *context, lac_hash *model, const char *key, const char *value) {
  if (strncmp(key, reserved, sizeof reserved - 1) == 0) {
    return lac_fail(context, LAC_E_USAGE, "metadata key '%s': found the reserved start '%s', expected another name",
                    key, reserved);
  }
  if (!lac_utf8_valid(key, strlen(key)) || !lac_utf8_valid(value, strlen(value))) {
    return lac_fail(context, LAC_E_USAGE, "metadata key '%s': found bytes that are no text, expected UTF-8", key);
  }
  char *copy;
  LAC_TRY(lac_copy_text(context, value, &copy));
  lac_text_pair *pair = find_pair(model, key);
  if (pair) {
    free((char *)pair->value);
    pair->value = copy;
    return LAC_OK;
  }
  lac_status status = add_pair(context, model, key, copy);
  if (status) {
    free(copy);
  }
  return status;
}

/* ---- Saving ---- */

static lac_tensor vector_of(const char *name, const float *data, int64_t length) {
  return (lac_tensor){.name = name, .type = LAC_TENSOR_F32, .axes = 1, .shape = {length}, .data = data};
}

static lac_tensor matrix_of(const char *name, const float *data, int64_t rows, int64_t columns) {
  return (lac_tensor){.name = name, .type = LAC_TENSOR_F32, .axes = 2, .shape = {rows, columns}, .data = data};
}

lac_status lac_hash_save(lac_context *context, const lac_hash *model, const char *path) {
  enum { OWN_PAIRS = 5 };
  lac_tensor tensors[] = {
      matrix_of("encoder.weight", model->weight, model->bits, model->features),
      vector_of("encoder.bias", model->bias, model->bits),
      matrix_of("decoder.weight", model->decoder, model->columns, model->bits),
      vector_of("decoder.bias", model->offset, model->columns),
      matrix_of("encoder.centres", model->centres, model->features, model->columns),
  };
  bool rbf = model->encoder == LAC_ENCODER_RBF;
  int64_t own = rbf ? OWN_PAIRS : OWN_PAIRS - 1;
  char *width;
  LAC_TRY(lac_real_text(context, model->width, &width));
  lac_text_pair *pairs;
  lac_status status = LAC_OK;
  LAC_TRY_GOTO(status, LAC_NEW(context, OWN_PAIRS + model->meta_count, &pairs), done);
  pairs[0] = (lac_text_pair){kind_key, kind_value};
  pairs[1] = (lac_text_pair){version_key, version_value};
  pairs[2] = (lac_text_pair){method_key, lac_hash_method_names[model->method]};
  pairs[3] = (lac_text_pair){encoder_key, lac_hash_encoder_names[model->encoder]};
  pairs[4] = (lac_text_pair){width_key, width};
  for (int64_t i = 0; i < model->meta_count; i++) {
    pairs[own + i] = model->meta[i];
  }
  status = lac_tensors_write(context, path, tensors, rbf ? 5 : 4, pairs, own + model->meta_count);
  lac_free(pairs);
done:
  free(width);
  return status;
}

/* ---- Loading ---- */

static lac_status missing_key(lac_context *context, const char *path, const char *key) {
  return lac_fail(context, LAC_E_INPUT, "%s: metadata '%s': found none, expected a hash model written by laconic", path,
                  key);
}

/* The index of a metadata text in a list of names. */
static lac_status read_name(lac_context *context, const char *path, const lac_tensors *file, const char *key,
                            const char *const *names, int *index) {
  const char *value = lac_tensors_meta(file, key);
  if (!value) {
    return missing_key(context, path, key);
  }
  char list[128] = "";
  for (int i = 0; names[i]; i++) {
    if (strcmp(value, names[i]) == 0) {
      *index = i;
      return LAC_OK;
    }
    size_t used = strlen(list);
    snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", names[i]);
  }
  return lac_fail(context, LAC_E_INPUT, "%s: metadata '%s': found '%.40s', expected one of %s", path, key, value, list);
}

static lac_status read_width(lac_context *context, const char *path, const lac_tensors *file, double *width) {
  const char *value = lac_tensors_meta(file, width_key);
  if (!value) {
    return missing_key(context, path, width_key);
  }
  lac_status status = lac_real_read(context, value, width);
  if (status == LAC_E_MEMORY) {
    return status;
  }
  if (status || !(*width > 0) || !isfinite(*width)) {
    return lac_fail(context, LAC_E_INPUT, "%s: metadata '%s': found '%.40s', expected a number above 0", path,
                    width_key, value);
  }
  return LAC_OK;
}

/* L, D and m. Every product of them that is allocated afterwards is the shape of a tensor that the file holds. */
static lac_status read_sizes(lac_context *context, const char *path, const lac_tensors *file, bool rbf, int64_t *bits,
                             int64_t *columns, int64_t *centres) {
  const lac_tensor *tensor;
  LAC_TRY(lac_tensors_find_f32(context, file, "decoder.weight", 2, &tensor));
  *columns = tensor->shape[0];
  *bits = tensor->shape[1];
  *centres = 0;
  if (*bits < 1 || *bits > BITS_LIMIT || *columns < 1) {
    char found[LAC_SHAPE_TEXT];
    return lac_fail(context, LAC_E_INPUT, "%s: tensor 'decoder.weight': found shape %s, expected [D, L], 1 to %d bits",
                    path, lac_tensor_shape_text(2, tensor->shape, found, sizeof found), (int)BITS_LIMIT);
  }
  if (rbf) {
    LAC_TRY(lac_tensors_find_f32(context, file, "encoder.centres", 2, &tensor));
    *centres = tensor->shape[0];
    if (*centres < 1) {
      return lac_fail(context, LAC_E_INPUT, "%s: tensor 'encoder.centres': found no row, expected 1 or more", path);
    }
    LAC_TRY(lac_tensors_check_f32(context, file, "encoder.centres", 2, (int64_t[]){*centres, *columns}));
  }
  int64_t features = rbf ? *centres : *columns;
  return lac_tensors_check_f32(context, file, "encoder.weight", 2, (int64_t[]){*bits, features});
}

static lac_status read_tensors(lac_context *context, const char *path, const lac_tensors *file, lac_hash *model) {
  const int64_t L = model->bits, D = model->columns, F = model->features;
  if (model->encoder == LAC_ENCODER_RBF) {
    LAC_TRY(lac_tensors_read_f32(context, file, "encoder.centres", 2, (int64_t[]){F, D}, model->centres));
  }
  LAC_TRY(lac_tensors_read_f32(context, file, "encoder.weight", 2, (int64_t[]){L, F}, model->weight));
  LAC_TRY(lac_tensors_read_f32(context, file, "encoder.bias", 1, (int64_t[]){L}, model->bias));
  LAC_TRY(lac_tensors_read_f32(context, file, "decoder.weight", 2, (int64_t[]){D, L}, model->decoder));
  LAC_TRY(lac_tensors_read_f32(context, file, "decoder.bias", 1, (int64_t[]){D}, model->offset));
  int64_t expected = model->encoder == LAC_ENCODER_RBF ? 5 : 4;
  return lac_tensors_count(file) == expected
             ? LAC_OK
             : lac_fail(context, LAC_E_INPUT, "%s: found %" PRId64 " tensors, expected %" PRId64 " in a hash model",
                        path, lac_tensors_count(file), expected);
}

static lac_status read_meta(lac_context *context, const lac_tensors *file, lac_hash *model) {
  for (int64_t i = 0; i < lac_tensors_pair_count(file); i++) {
    const lac_text_pair *pair = lac_tensors_pair_at(file, i);
    if (strncmp(pair->key, reserved, sizeof reserved - 1) != 0) { /* each key once, and UTF-8, as lac_tensors says */
      char *value;
      LAC_TRY(lac_copy_text(context, pair->value, &value));
      lac_status status = add_pair(context, model, pair->key, value);
      if (status) {
        free(value);
        return status;
      }
    }
  }
  return LAC_OK;
}

static lac_status load_from(lac_context *context, const char *path, const lac_tensors *file, lac_hash **model) {
  static const char *const kinds[] = {kind_value, NULL}, *const versions[] = {version_value, NULL};
  int index, method, encoder;
  LAC_TRY(read_name(context, path, file, kind_key, kinds, &index));
  LAC_TRY(read_name(context, path, file, version_key, versions, &index));
  LAC_TRY(read_name(context, path, file, method_key, lac_hash_method_names, &method));
  LAC_TRY(read_name(context, path, file, encoder_key, lac_hash_encoder_names, &encoder));
  int64_t bits, columns, centres;
  bool rbf = encoder == LAC_ENCODER_RBF;
  LAC_TRY(read_sizes(context, path, file, rbf, &bits, &columns, &centres));
  LAC_TRY(lac_hash_create(context, bits, columns, (lac_hash_method)method, centres, model));
  if (rbf) {
    LAC_TRY(read_width(context, path, file, &(*model)->width));
  }
  LAC_TRY(read_tensors(context, path, file, *model));
  return read_meta(context, file, *model);
}

lac_status lac_hash_from_tensors(lac_context *context, const char *path, const lac_tensors *file, lac_hash **model) {
  *model = NULL;
  lac_status status = load_from(context, path, file, model);
  if (status) {
    lac_hash_destroy(model);
  }
  return status;
}

lac_status lac_hash_load(lac_context *context, const char *path, lac_hash **model) {
  *model = NULL;
  lac_tensors *file;
  LAC_TRY(lac_tensors_open(context, path, &file));
  lac_status status = lac_hash_from_tensors(context, path, file, model);
  lac_tensors_close(&file);
  return status;
}
