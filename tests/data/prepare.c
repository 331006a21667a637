/* prepare FIT APPLY PART KIND EPSILON CACHE OUT: fits a preparation to the training part of FIT and applies it to a
 * part (train, test) of APPLY, for the test that has numpy do the same. Writes OUT.npy, the prepared pictures (N, D);
 * OUT.labels.npy; and OUT.safetensors, the preparation, which must do the same to the pictures after it was loaded
 * again. CACHE may be -. A failure is a line on standard error and exit status 1. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "data/images.h"

static lac_status write_arrays(lac_context *context, const char *out, const lac_images *images, const float *pixels) {
  char name[256];
  int64_t count = lac_images_count(images);
  snprintf(name, sizeof name, "%s.npy", out);
  LAC_TRY(lac_array_write(context, name, LAC_F32, pixels, count, lac_shape_pixels(lac_images_shape(images))));
  snprintf(name, sizeof name, "%s.labels.npy", out);
  return lac_array_write(context, name, LAC_I32, lac_images_labels(images), count, 1);
}

static lac_status compare_loaded(lac_context *context, const char *name, const lac_prepare *loaded,
                                 const lac_images *images, const float *pixels) {
  int64_t count = lac_images_count(images), values = count * lac_shape_pixels(lac_images_shape(images));
  float *again;
  LAC_TRY(LAC_NEW(context, values, &again));
  lac_status status = lac_prepare_apply(context, loaded, images, 0, count, again);
  if (!status && memcmp(again, pixels, (size_t)values * sizeof *again) != 0) {
    status = lac_fail(context, LAC_E_INTERNAL, "%s: does not do what was written", name);
  }
  lac_free(again);
  return status;
}

static lac_status write_prepare(lac_context *context, const char *out, const lac_prepare *prepare,
                                const lac_images *images, const float *pixels) {
  char name[256];
  lac_tensor tensors[3];
  lac_text_pair pair = {"prepare", lac_prepare_names[lac_prepare_kind_of(prepare)]};
  lac_tensors *file;
  lac_prepare *loaded;
  snprintf(name, sizeof name, "%s.safetensors", out);
  LAC_TRY(lac_tensors_write(context, name, tensors, lac_prepare_tensors(prepare, tensors), &pair, 1));
  LAC_TRY(lac_tensors_open(context, name, &file));
  lac_status status = lac_prepare_load(context, file, lac_prepare_shape(prepare), &loaded);
  lac_tensors_close(&file);
  if (!status) {
    status = compare_loaded(context, name, loaded, images, pixels);
  }
  lac_prepare_destroy(&loaded);
  return status;
}

static lac_status run(lac_context *context, char **argument) {
  lac_images *fit = NULL, *images = NULL;
  lac_prepare *prepare = NULL;
  float *pixels = NULL;
  int kind = 0;
  while (strcmp(lac_prepare_names[kind], argument[4]) != 0) {
    kind++;
  }
  lac_images_part part = strcmp(argument[3], "test") == 0 ? LAC_IMAGES_TEST : LAC_IMAGES_TRAIN;
  const char *cache = strcmp(argument[6], "-") == 0 ? NULL : argument[6];
  lac_status status;
  LAC_TRY_GOTO(status, lac_images_open(context, argument[1], LAC_IMAGES_TRAIN, &fit), done);
  LAC_TRY_GOTO(status, lac_images_open(context, argument[2], part, &images), done);
  LAC_TRY_GOTO(status,
               lac_prepare_fit(context, fit, (lac_prepare_kind)kind, strtod(argument[5], NULL), cache, &prepare), done);
  int64_t count = lac_images_count(images);
  LAC_TRY_GOTO(status, LAC_NEW(context, count * lac_shape_pixels(lac_images_shape(images)), &pixels), done);
  LAC_TRY_GOTO(status, lac_prepare_apply(context, prepare, images, 0, count, pixels), done);
  LAC_TRY_GOTO(status, write_arrays(context, argument[7], images, pixels), done);
  status = write_prepare(context, argument[7], prepare, images, pixels);

done:
  lac_free(pixels);
  lac_prepare_destroy(&prepare);
  lac_images_destroy(&images);
  lac_images_destroy(&fit);
  return status;
}

int main(int argc, char **argv) {
  lac_context *context;
  if (argc != 8 || lac_context_create(&context)) {
    return 2;
  }
  lac_status status = run(context, argv);
  if (status) {
    fprintf(stderr, "%s: %s\n", lac_status_name(status), lac_context_message(context));
  }
  lac_context_destroy(&context);
  return status ? 1 : 0;
}
