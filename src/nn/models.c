/* Descriptions of the built-in networks. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "laconic/net.h"

enum { MOST_DEPTH = 1000, MOST_FACTOR = 1000, MOST_UNITS = 1000000, MOST_LAYERS = 64 };

typedef struct writer {
  FILE *out;
  double width;
  int blocks; /* residual blocks so far, for the names of marks */
} writer;

/* Channels or units after widening. */
static int64_t widened(const writer *self, int64_t channels) {
  int64_t wide = llround((double)channels * self->width);
  return wide < 1 ? 1 : wide;
}

/* ---- LeNet: LeCun et al. 1998, with batch normalisation as in Chaudhari et al. 2017 ---- */

static void write_lenet(writer *self) {
  fprintf(self->out, "conv %" PRId64 " kernel=5\nbatchnorm\nrelu\nmaxpool 3\ndropout 0.25\n", widened(self, 20));
  fprintf(self->out, "conv %" PRId64 " kernel=5\nbatchnorm\nrelu\nmaxpool 2\ndropout 0.25\n", widened(self, 50));
  fprintf(self->out, "dense %" PRId64 "\nbatchnorm\nrelu\ndropout 0.25\n", widened(self, 500));
  fprintf(self->out, "dense classes\n");
}

/* ---- All-CNN: Springenberg et al. 2015, as in Chaudhari et al. 2017 ---- */

static void write_allcnn_conv(writer *self, int64_t channels, int stride) {
  fprintf(self->out, "conv %" PRId64 " kernel=3%s pad=1\nbatchnorm\nrelu\n", widened(self, channels),
          stride == 2 ? " stride=2" : "");
}

static void write_allcnn(writer *self) {
  fprintf(self->out, "dropout 0.2\n");
  for (int64_t channels = 96; channels <= 192; channels *= 2) {
    write_allcnn_conv(self, channels, 1);
    write_allcnn_conv(self, channels, 1);
    write_allcnn_conv(self, channels, 2);
    fprintf(self->out, "dropout 0.5\n");
  }
  write_allcnn_conv(self, 192, 1);
  write_allcnn_conv(self, 192, 1);
  fprintf(self->out, "conv classes kernel=1\nbatchnorm\nrelu\navgpool all\n");
}

/* ---- residual networks ---- */

/* A convolution before or behind a batch normalisation or a sum, where a bias would have no effect. */
static void write_plain_conv(writer *self, int64_t channels, int kernel, int stride) {
  fprintf(self->out, "conv %" PRId64 " kernel=%d%s%s bias=no\n", channels, kernel, stride == 2 ? " stride=2" : "",
          kernel == 3 ? " pad=1" : "");
}

/* He et al. 2016: conv, norm, relu, conv, norm, sum, relu. */
static void write_resnet_block(writer *self, int64_t channels, int stride, bool changes) {
  int block = ++self->blocks;
  fprintf(self->out, "mark block%d\n", block);
  write_plain_conv(self, channels, 3, stride);
  fprintf(self->out, "batchnorm\nrelu\n");
  write_plain_conv(self, channels, 3, 1);
  fprintf(self->out, "batchnorm\n");
  if (changes) {
    fprintf(self->out, "mark residual%d\nfrom block%d\n", block, block);
    write_plain_conv(self, channels, 1, stride);
    fprintf(self->out, "batchnorm\nadd residual%d\nrelu\n", block);
  } else {
    fprintf(self->out, "add block%d\nrelu\n", block);
  }
}

static void write_resnet20(writer *self) {
  write_plain_conv(self, widened(self, 16), 3, 1);
  fprintf(self->out, "batchnorm\nrelu\n");
  for (int stage = 0; stage < 3; stage++) {
    for (int block = 0; block < 3; block++) {
      bool first = stage > 0 && block == 0;
      write_resnet_block(self, widened(self, 16 << stage), first ? 2 : 1, first);
    }
  }
  fprintf(self->out, "avgpool all\ndense classes\n");
}

/* Zagoruyko and Komodakis 2016: norm, relu, conv, norm, relu, conv, sum; where the shape changes, the shortcut is a
 * convolution of what comes out of the first relu. */
static void write_wide_block(writer *self, int64_t channels, int stride, bool changes) {
  int block = ++self->blocks;
  if (!changes) {
    fprintf(self->out, "mark block%d\n", block);
  }
  fprintf(self->out, "batchnorm\nrelu\n");
  if (changes) {
    fprintf(self->out, "mark block%d\n", block);
  }
  write_plain_conv(self, channels, 3, stride);
  fprintf(self->out, "batchnorm\nrelu\n");
  write_plain_conv(self, channels, 3, 1);
  if (changes) {
    fprintf(self->out, "mark residual%d\nfrom block%d\n", block, block);
    write_plain_conv(self, channels, 1, stride);
    fprintf(self->out, "add residual%d\n", block);
  } else {
    fprintf(self->out, "add block%d\n", block);
  }
}

static void write_wide(writer *self, int64_t depth, int64_t factor) {
  int64_t before = widened(self, 16);
  write_plain_conv(self, before, 3, 1);
  for (int stage = 0; stage < 3; stage++) {
    int64_t channels = widened(self, factor * (16 << stage));
    for (int64_t block = 0; block < (depth - 4) / 6; block++) {
      bool first = block == 0;
      write_wide_block(self, channels, first && stage > 0 ? 2 : 1, first && (stage > 0 || channels != before));
    }
    before = channels;
  }
  fprintf(self->out, "batchnorm\nrelu\navgpool all\ndense classes\n");
}

/* ---- names ---- */

/* A whole number at *text, which moves behind it; 0 when there is none or it is beyond the limit. */
static int64_t take_number(const char **text, int64_t limit) {
  int64_t number = 0;
  const char *at = *text;
  while (*at >= '0' && *at <= '9' && number <= limit) {
    number = 10 * number + (*at++ - '0');
  }
  *text = at;
  return number <= limit ? number : 0;
}

static lac_status write_named_wide(lac_context *context, writer *self, const char *name) {
  const char *at = name + strlen("wrn-");
  int64_t depth = take_number(&at, MOST_DEPTH);
  int64_t factor = *at == '-' ? (at++, take_number(&at, MOST_FACTOR)) : 0;
  if (depth < 10 || (depth - 4) % 6 != 0 || factor == 0 || *at) {
    return lac_fail(context, LAC_E_USAGE,
                    "network '%s': expected wrn-D-K, D = 10, 16, 22 … up to %d layers and K from 1 to %d times as wide",
                    name, MOST_DEPTH, MOST_FACTOR);
  }
  write_wide(self, depth, factor);
  return LAC_OK;
}

/* mlp:784-500-10 */
static lac_status write_named_mlp(lac_context *context, writer *self, const char *name) {
  int64_t units[MOST_LAYERS];
  int count = 0;
  const char *at = name + strlen("mlp:");
  do {
    units[count++] = take_number(&at, MOST_UNITS);
  } while (units[count - 1] > 0 && *at == '-' && at++ && count < MOST_LAYERS);
  if (units[count - 1] == 0 || *at || at[-1] == '-' || count < 2) {
    return lac_fail(context, LAC_E_USAGE,
                    "network '%s': expected mlp:A-B-…-C, 2 to %d whole numbers from 1 to %d: of the picture, of units "
                    "of each hidden layer, of classes",
                    name, MOST_LAYERS, MOST_UNITS);
  }
  fprintf(self->out, "input %" PRId64 "\n", units[0]);
  for (int i = 1; i < count - 1; i++) {
    fprintf(self->out, "dense %" PRId64 "\nrelu\n", widened(self, units[i]));
  }
  fprintf(self->out, "dense %" PRId64 "\n", units[count - 1]);
  return LAC_OK;
}

static lac_status fail_unknown(lac_context *context, const char *name) {
  static const char *const names[] = {"lenet", "allcnn", "resnet20", "wrn-28-10", "mlp:784-500-10"};
  const char *nearest = NULL;
  int least = 4; /* further away it is another word rather than a slip */
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    int distance = lac_text_distance(name, names[i]);
    if (distance < least) {
      least = distance;
      nearest = names[i];
    }
  }
  return nearest ? lac_fail(context, LAC_E_USAGE, "network '%s': unknown, did you mean %s?", name, nearest)
                 : lac_fail(context, LAC_E_USAGE,
                            "network '%s': unknown, expected lenet, allcnn, resnet20, wrn-D-K or mlp:A-B-C", name);
}

static lac_status write_named(lac_context *context, writer *self, const char *name) {
  static const struct {
    const char *name;
    void (*write)(writer *self);
  } fixed[] = {{"lenet", write_lenet}, {"allcnn", write_allcnn}, {"resnet20", write_resnet20}};
  for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
    if (strcmp(name, fixed[i].name) == 0) {
      fixed[i].write(self);
      return LAC_OK;
    }
  }
  if (strncmp(name, "wrn-", 4) == 0) {
    return write_named_wide(context, self, name);
  }
  if (strncmp(name, "mlp:", 4) == 0) {
    return write_named_mlp(context, self, name);
  }
  return fail_unknown(context, name);
}

lac_status lac_net_builtin(lac_context *context, const char *name, double width, char **text) {
  *text = NULL;
  if (!(width > 0 && width <= 1000)) {
    return lac_fail(context, LAC_E_USAGE, "network '%s': found width %g, expected more than 0, at most 1000", name,
                    width);
  }
  char *written = NULL;
  size_t bytes = 0;
  writer self = {.out = open_memstream(&written, &bytes), .width = width};
  if (!self.out) {
    return lac_fail(context, LAC_E_MEMORY, "cannot allocate a text");
  }
  lac_status status = write_named(context, &self, name);
  if (fclose(self.out) != 0 && !status) {
    status = lac_fail(context, LAC_E_MEMORY, "cannot allocate a text");
  }
  if (status) {
    free(written);
    return status;
  }
  *text = written;
  return LAC_OK;
}

lac_image_shape lac_net_builtin_input(const char *name, int64_t *classes) {
  static const char mlp[] = "mlp:";
  *classes = 10;
  if (strncmp(name, mlp, strlen(mlp)) == 0) {
    const char *last = strrchr(name, '-');
    *classes = last ? strtoll(last + 1, NULL, 10) : 0;
    return (lac_image_shape){1, 1, strtoll(name + strlen(mlp), NULL, 10)};
  }
  return strcmp(name, "lenet") == 0 ? (lac_image_shape){1, 28, 28} : (lac_image_shape){3, 32, 32};
}
