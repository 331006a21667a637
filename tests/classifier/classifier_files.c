/* Writes a classifier as training does, for readers in other languages: a built-in network with starting values that
 * are shaken, statistics that are made up, and a preparation that is fitted.
 *
 *     classifier_files NETWORK WIDTH PREPARATION DATA MODEL */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "laconic/classifier.h"

static lac_prepare_kind kind_of(const char *name) {
  int kind = 0;
  while (strcmp(lac_prepare_names[kind], name) != 0) {
    kind++;
  }
  return (lac_prepare_kind)kind;
}

static void make_values(const lac_net *net, float *parameters, float *statistics) {
  lac_random random = lac_random_stream(1, LAC_RANDOM_TEST, 0, 0);
  lac_net_initialise(net, 1, parameters, statistics);
  for (int64_t i = 0; i < lac_net_parameters(net); i++) {
    parameters[i] += (float)(0.1 * lac_random_normal(&random));
  }
  for (int64_t i = 0; i < lac_net_statistics(net); i++) {
    statistics[i] = (float)(0.5 + lac_random_uniform(&random));
  }
}

static lac_status write_model(lac_context *context, const lac_net *net, const lac_prepare *prepare, const char *path) {
  static const lac_text_pair pairs[] = {{"data", "made up"}};
  float *parameters, *statistics;
  LAC_TRY(LAC_NEW(context, lac_net_parameters(net), &parameters));
  LAC_TRY(LAC_NEW(context, lac_net_statistics(net), &statistics));
  make_values(net, parameters, statistics);
  lac_status status = lac_classifier_save(context, path, net, parameters, statistics, prepare, pairs, 1);
  lac_free(parameters);
  lac_free(statistics);
  return status;
}

static lac_status make_model(lac_context *context, char **arguments) {
  lac_images *images = NULL;
  lac_prepare *prepare = NULL;
  lac_net *net = NULL;
  char *text = NULL;
  lac_status status;
  LAC_TRY_GOTO(status, lac_images_open(context, arguments[3], LAC_IMAGES_TRAIN, &images), done);
  LAC_TRY_GOTO(status, lac_prepare_fit(context, images, kind_of(arguments[2]), 0.1, NULL, &prepare), done);
  LAC_TRY_GOTO(status, lac_net_builtin(context, arguments[0], strtod(arguments[1], NULL), &text), done);
  LAC_TRY_GOTO(
      status,
      lac_net_create(context, text, arguments[0], lac_images_shape(images), lac_images_classes(images), 1, NULL, &net),
      done);
  status = write_model(context, net, prepare, arguments[4]);
done:
  free(text);
  lac_net_destroy(&net);
  lac_prepare_destroy(&prepare);
  lac_images_destroy(&images);
  return status;
}

int main(int argc, char **argv) {
  lac_context *context;
  if (argc != 6 || lac_context_create(&context)) {
    return 2;
  }
  lac_status status = make_model(context, argv + 1);
  if (status) {
    fprintf(stderr, "%s\n", lac_context_message(context));
  }
  lac_context_destroy(&context);
  return status ? 1 : 0;
}
