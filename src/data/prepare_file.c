/* Preparations in safetensors files: parts of a model, or a cache of their own. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"
#include "data/prepare.h"
#include "laconic/output.h"
#include "store/safetensors.h"

static const char prepare_key[] = "prepare";

/* What a cache says beside that. */
static const char kind_key[] = "laconic.kind", kind_value[] = "preparation", version_key[] = "laconic.version",
                  version_value[] = "1", fingerprint_key[] = "fingerprint", epsilon_key[] = "zca.epsilon";

/* A tensor of a preparation: its name and shape, and where the preparation keeps it. */
typedef struct part {
  const char *name;
  float *const *values;
  int axes;
  int64_t shape[2];
} part;

/* Those of the kind, whether their arrays are allocated yet or not. */
static int parts_of(const lac_prepare *prepare, part parts[3]) {
  int64_t groups = prepare->kind == LAC_PREPARE_CHANNELS ? prepare->shape.channels : 1, n = prepare->pixels;
  switch (prepare->kind) {
    case LAC_PREPARE_SCALE:
    case LAC_PREPARE_CHANNELS:
      parts[0] = (part){"prepare.mean", &prepare->mean, 1, {groups}};
      parts[1] = (part){"prepare.scale", &prepare->scale, 1, {groups}};
      return 2;
    case LAC_PREPARE_ZCA:
      parts[0] = (part){"prepare.mean", &prepare->mean, 1, {n}};
      parts[1] = (part){"prepare.whitening", &prepare->whitening, 2, {n, n}};
      return 2;
    default:
      return 0;
  }
}

int64_t lac_prepare_tensors(const lac_prepare *prepare, lac_tensor tensors[3]) {
  part parts[3];
  int count = parts_of(prepare, parts);
  for (int i = 0; i < count; i++) {
    tensors[i] = (lac_tensor){.name = parts[i].name,
                              .type = LAC_TENSOR_F32,
                              .axes = parts[i].axes,
                              .shape = {parts[i].shape[0], parts[i].shape[1]},
                              .data = *parts[i].values};
  }
  return count;
}

/* ---- Loading ---- */

static lac_status find_kind(lac_context *context, const lac_tensors *file, lac_prepare_kind *kind) {
  const char *name = lac_tensors_meta(file, prepare_key);
  for (int i = 0; name && lac_prepare_names[i]; i++) {
    if (strcmp(name, lac_prepare_names[i]) == 0) {
      *kind = (lac_prepare_kind)i;
      return LAC_OK;
    }
  }
  return lac_fail(context, LAC_E_INPUT, "%s: __metadata__ '%s': found %s%.20s%s, expected none, scale, channels or zca",
                  lac_tensors_path(file), prepare_key, name ? "'" : "nothing", name ? name : "", name ? "'" : "");
}

/* All is checked before anything is allocated. */
static lac_status load_parts(lac_context *context, const lac_tensors *file, const lac_prepare *about,
                             lac_prepare **prepare) {
  part parts[3];
  int count = parts_of(about, parts);
  for (int i = 0; i < count; i++) {
    LAC_TRY(lac_tensors_check_f32(context, file, parts[i].name, parts[i].axes, parts[i].shape));
  }
  LAC_TRY(lac_prepare_create(context, about->kind, about->shape, prepare));
  parts_of(*prepare, parts);
  for (int i = 0; i < count; i++) {
    LAC_TRY(lac_tensors_read_f32(context, file, parts[i].name, parts[i].axes, parts[i].shape, *parts[i].values));
  }
  return lac_prepare_complete(context, *prepare);
}

lac_status lac_prepare_load(lac_context *context, const lac_tensors *file, lac_image_shape shape,
                            lac_prepare **prepare) {
  *prepare = NULL;
  lac_prepare about = {.shape = shape};
  LAC_TRY(lac_shape_check(context, shape, &about.pixels));
  LAC_TRY(find_kind(context, file, &about.kind));
  lac_status status = load_parts(context, file, &about, prepare);
  if (status) {
    lac_prepare_destroy(prepare);
  }
  return status;
}

/* ---- Cache ---- */

enum { CACHE_PAIRS = 5, FINGERPRINT_TEXT = 17 };

static void fingerprint_text(uint64_t fingerprint, char text[FINGERPRINT_TEXT]) {
  snprintf(text, FINGERPRINT_TEXT, "%016" PRIx64, fingerprint);
}

/* What a cache of a fit says of it; `epsilon` and `fingerprint` are borrowed. */
static void cache_pairs(const char *fingerprint, const char *epsilon, lac_text_pair pairs[CACHE_PAIRS]) {
  pairs[0] = (lac_text_pair){kind_key, kind_value};
  pairs[1] = (lac_text_pair){version_key, version_value};
  pairs[2] = (lac_text_pair){prepare_key, lac_prepare_names[LAC_PREPARE_ZCA]};
  pairs[3] = (lac_text_pair){fingerprint_key, fingerprint};
  pairs[4] = (lac_text_pair){epsilon_key, epsilon};
}

static bool has_pair(const lac_tensors *file, lac_text_pair pair) {
  const char *value = lac_tensors_meta(file, pair.key);
  return value && strcmp(value, pair.value) == 0;
}

static lac_status load_cache(lac_context *context, const lac_tensors *file, lac_image_shape shape,
                             const lac_text_pair pairs[CACHE_PAIRS], lac_prepare **prepare) {
  bool cache = has_pair(file, pairs[0]) && has_pair(file, pairs[2]), same = true;
  if (!cache) {
    return lac_fail(context, LAC_E_INPUT,
                    "%s: found a file that is no cache of a zca preparation, expected one or none: it would be "
                    "overwritten",
                    lac_tensors_path(file));
  }
  for (int i = 0; i < CACHE_PAIRS; i++) {
    same = same && has_pair(file, pairs[i]);
  }
  return same ? lac_prepare_load(context, file, shape, prepare) : LAC_OK;
}

lac_status lac_zca_cache_read(lac_context *context, const char *path, lac_image_shape shape, uint64_t fingerprint,
                              double epsilon, lac_prepare **prepare) {
  *prepare = NULL;
  if (access(path, F_OK) != 0) {
    return lac_output_check(context, path);
  }
  char digits[FINGERPRINT_TEXT], *number;
  lac_text_pair pairs[CACHE_PAIRS];
  lac_tensors *file;
  fingerprint_text(fingerprint, digits);
  LAC_TRY(lac_tensors_open(context, path, &file));
  lac_status status = lac_real_text(context, epsilon, &number);
  if (!status) {
    cache_pairs(digits, number, pairs);
    status = load_cache(context, file, shape, pairs, prepare);
    free(number);
  }
  lac_tensors_close(&file);
  LAC_TRY(status);
  return *prepare ? LAC_OK : lac_output_check(context, path);
}

lac_status lac_zca_cache_write(lac_context *context, const char *path, const lac_prepare *prepare, uint64_t fingerprint,
                               double epsilon) {
  char digits[FINGERPRINT_TEXT], *number;
  lac_text_pair pairs[CACHE_PAIRS];
  lac_tensor tensors[3];
  fingerprint_text(fingerprint, digits);
  LAC_TRY(lac_real_text(context, epsilon, &number));
  cache_pairs(digits, number, pairs);
  lac_status status =
      lac_tensors_write(context, path, tensors, lac_prepare_tensors(prepare, tensors), pairs, CACHE_PAIRS);
  free(number);
  return status;
}
