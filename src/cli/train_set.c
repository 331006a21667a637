#include "cli/train_set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/progress.h"

enum { HELD_OUT_PART = 25, FEWEST_HELD_OUT = 10 };

/* Whitening for the nets whose figures were taken with it, else the mean and deviation. */
static lac_prepare_kind kind_of(const lac_train_options *options, lac_image_shape shape) {
  if (options->prepare != LAC_TRAIN_PREPARE_AUTO) {
    return (lac_prepare_kind)(options->prepare - 1);
  }
  bool whitened = strcmp(options->model, "allcnn") == 0 || strncmp(options->model, "wrn-", 4) == 0;
  if (shape.channels == 3) {
    return whitened ? LAC_PREPARE_ZCA : LAC_PREPARE_CHANNELS;
  }
  return shape.channels == 1 ? LAC_PREPARE_SCALE : LAC_PREPARE_CHANNELS;
}

static lac_status hold_out(lac_session *session, const lac_train_options *options, lac_images *all,
                           lac_train_set *set) {
  int64_t count = lac_images_count(all), held = options->held_out;
  if (held < 0) {
    held = count / HELD_OUT_PART >= FEWEST_HELD_OUT ? count / HELD_OUT_PART : 0;
  }
  if (held >= count) {
    return lac_fail(session->context, LAC_E_USAGE,
                    "--held-out: found %lld of the %lld pictures of %s, expected some to be left", (long long)held,
                    (long long)count, options->data);
  }
  return lac_images_split(session->context, all, options->seed, held, &set->train.images, &set->held_out.images);
}

static bool same_shape(lac_image_shape a, lac_image_shape b) {
  return a.channels == b.channels && a.height == b.height && a.width == b.width;
}

/* The test part of a named set belongs to it; of two files it is named apart. */
static lac_status open_test(lac_session *session, const lac_train_options *options, lac_train_set *set) {
  bool named = strchr(options->data, ':') && !strchr(options->data, '+');
  const char *source = options->test ? options->test : named ? options->data : NULL;
  if (!source) {
    return LAC_OK;
  }
  CLI_TRY(lac_images_open(session->context, source, LAC_IMAGES_TEST, &set->test.images));
  lac_image_shape train = lac_images_shape(set->train.images), test = lac_images_shape(set->test.images);
  if (!same_shape(train, test)) {
    return lac_fail(session->context, LAC_E_INPUT,
                    "%s: found pictures of %lld x %lld x %lld, expected %lld x %lld x %lld as in %s", source,
                    (long long)test.channels, (long long)test.height, (long long)test.width, (long long)train.channels,
                    (long long)train.height, (long long)train.width, options->data);
  }
  if (lac_images_classes(set->test.images) > lac_images_classes(set->train.images)) {
    return lac_fail(session->context, LAC_E_INPUT, "%s: found labels up to %lld, expected at most %lld as in %s",
                    source, (long long)lac_images_classes(set->test.images) - 1,
                    (long long)lac_images_classes(set->train.images) - 1, options->data);
  }
  return LAC_OK;
}

static lac_status prepare_part(lac_session *session, const lac_prepare *prepare, lac_train_part *part) {
  if (!part->images) {
    return LAC_OK;
  }
  lac_image_shape shape = lac_images_shape(part->images);
  int64_t count = lac_images_count(part->images), pixels = shape.channels * shape.height * shape.width;
  part->pixels = count <= (int64_t)(SIZE_MAX / 8) / pixels
                     ? aligned_alloc(64, ((size_t)(count * pixels) * sizeof(float) + 63) / 64 * 64)
                     : NULL;
  if (!part->pixels) {
    return lac_fail(session->context, LAC_E_MEMORY, "cannot allocate %lld pictures of %lld pixels", (long long)count,
                    (long long)pixels);
  }
  return lac_prepare_apply(session->context, prepare, part->images, 0, count, part->pixels);
}

static lac_status fit_and_apply(lac_session *session, const lac_train_options *options, lac_train_set *set) {
  lac_prepare_kind kind = kind_of(options, lac_images_shape(set->train.images));
  lac_progress_show(session, "%s", kind == LAC_PREPARE_ZCA ? "whitening the pictures" : "preparing the pictures");
  CLI_TRY(lac_prepare_fit(session->context, set->train.images, kind, options->zca_epsilon,
                          session->silent ? NULL : options->zca_cache, &set->prepare));
  CLI_TRY(prepare_part(session, set->prepare, &set->train));
  CLI_TRY(prepare_part(session, set->prepare, &set->held_out));
  return prepare_part(session, set->prepare, &set->test);
}

lac_status lac_train_set_open(lac_session *session, const lac_train_options *options, lac_train_set *set) {
  *set = (lac_train_set){0};
  lac_images *all = NULL;
  lac_status status;
  CLI_TRY_GOTO(status, lac_images_open(session->context, options->data, LAC_IMAGES_TRAIN, &all), done);
  CLI_TRY_GOTO(status, lac_images_fingerprint(session->context, all, &set->fingerprint), done);
  CLI_TRY_GOTO(status, hold_out(session, options, all, set), done);
  CLI_TRY_GOTO(status, open_test(session, options, set), done);
  CLI_TRY_GOTO(status, fit_and_apply(session, options, set), done);
done:
  lac_progress_clear(session);
  lac_images_destroy(&all);
  if (status) {
    lac_train_set_close(set);
  }
  return status;
}

static void close_part(lac_train_part *part) {
  lac_images_destroy(&part->images);
  free(part->pixels);
}

void lac_train_set_close(lac_train_set *set) {
  lac_prepare_destroy(&set->prepare);
  close_part(&set->train);
  close_part(&set->held_out);
  close_part(&set->test);
  *set = (lac_train_set){0};
}
