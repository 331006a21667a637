#include <stdlib.h>

#include "cli/data_options.h"
#include "cli/train.h"

static const char *const prepare_names[] = {"auto", "none", "scale", "channels", "zca", NULL};
static const char *const keep_names[] = {"best", "last", NULL};

const lac_option lac_train_option_table[] = {
    LAC_TEXT_OPTION(
        lac_train_options, model, "model", "NETWORK",
        "the network: lenet, allcnn, resnet20, wrn-D-K as wrn-16-4, mlp:IN-HIDDEN-OUT as mlp:784-500-10, or "
        "a file that describes its layers"),
    {.key = "width",
     .type = LAC_OPTION_REAL,
     .offset = offsetof(lac_train_options, width),
     .low = 1e-6,
     .high = 1000,
     .fallback = "1",
     .help = "multiplies the channels and units of a built-in network"},
    LAC_DATA_OPTION(lac_train_options, data),
    LAC_TEXT_OPTION(lac_train_options, test, "test", "SET",
                    "pictures to measure the error on; a named set brings its own"),
    {.key = "output",
     .letter = 'o',
     .type = LAC_OPTION_TEXT,
     .offset = offsetof(lac_train_options, output),
     .unit = "FILE",
     .help = "where the model goes, a safetensors file"},
    LAC_TEXT_OPTION(
        lac_train_options, run, "run", "DIR",
        "folder of the run, for its options, metrics and checkpoints; when not given FILE with .run in place "
        "of .safetensors"),
    LAC_TEXT_OPTION(
        lac_train_options, resume, "resume", "DIR",
        "go on with the run of this folder, exactly where it stood, with its options; those given beside it "
        "replace the stored ones"),
    {.key = "overwrite",
     .type = LAC_OPTION_FLAG,
     .offset = offsetof(lac_train_options, overwrite),
     .help = "replace the run that is in the folder"},
    {.key = "workers",
     .type = LAC_OPTION_INT,
     .offset = offsetof(lac_train_options, workers),
     .low = 1,
     .high = 4096,
     .fallback = "1",
     .help = "replicas, each by one thread; under mpiexec always one per rank"},
    {.key = "batch",
     .type = LAC_OPTION_INT,
     .offset = offsetof(lac_train_options, batch),
     .low = 1,
     .high = 1e6,
     .fallback = "128",
     .unit = "pictures",
     .help = "of each replica's gradient"},
    {.key = "split",
     .type = LAC_OPTION_REAL,
     .offset = offsetof(lac_train_options, split),
     .low = 0,
     .high = 1,
     .fallback = "0",
     .help = "fraction of the training pictures that each replica sees, a contiguous part of one shared shuffle; 0 "
             "chooses: 1/workers for sgd, 1 for the others"},
    {.key = "replacement",
     .type = LAC_OPTION_FLAG,
     .offset = offsetof(lac_train_options, replacement),
     .help = "draw every picture anew instead of shuffling the replica's part in each pass"},
    {.key = "held-out",
     .type = LAC_OPTION_INT,
     .offset = offsetof(lac_train_options, held_out),
     .low = -1,
     .high = 1e9,
     .fallback = "-1",
     .unit = "pictures",
     .help = "training pictures that are kept for choosing the best model; 0 is none, -1 chooses: 1 in 25"},
    {.key = "keep",
     .type = LAC_OPTION_NAME,
     .offset = offsetof(lac_train_options, keep),
     .names = keep_names,
     .fallback = "best",
     .help = "which model FILE becomes: the one with the least error on the pictures held out, or the last; the last "
             "where none are held out"},
    {.key = "prepare",
     .type = LAC_OPTION_NAME,
     .offset = offsetof(lac_train_options, prepare),
     .names = prepare_names,
     .fallback = "auto",
     .help = "of the pixels: nothing, one mean and deviation, those of each channel, or contrast normalisation and ZCA "
             "whitening; auto: scale with one channel, channels with more, zca for allcnn and wrn-D-K with three"},
    {.key = "zca-epsilon",
     .type = LAC_OPTION_REAL,
     .offset = offsetof(lac_train_options, zca_epsilon),
     .low = 1e-12,
     .high = 1e6,
     .fallback = "0.1",
     .help = "added to the variances that whitening divides by"},
    LAC_TEXT_OPTION(lac_train_options, zca_cache, "zca-cache", "FILE",
                    "where a whitening is kept for the next run on the same pictures"),
    {.key = "flip",
     .type = LAC_OPTION_FLAG,
     .offset = offsetof(lac_train_options, flip),
     .help = "flip pictures left to right at random"},
    {.key = "crop",
     .type = LAC_OPTION_INT,
     .offset = offsetof(lac_train_options, crop),
     .low = 0,
     .high = 1024,
     .fallback = "0",
     .unit = "pixels",
     .help = "pad pictures by so many pixels, reflected, and crop them at a random place"},
    {.key = "ahead",
     .type = LAC_OPTION_FLAG,
     .offset = offsetof(lac_train_options, ahead),
     .help = "make the next batch by a thread of its own while the current one is computed; pays where there are more "
             "cores than workers"},
    {.key = "statistics",
     .type = LAC_OPTION_INT,
     .offset = offsetof(lac_train_options, statistics),
     .low = 0,
     .high = 1e9,
     .fallback = "100",
     .unit = "batches",
     .help =
         "that batch-norm statistics are estimated on after an epoch, at most a pass; 0 and the last epoch: a pass"},
    {.key = "seed",
     .type = LAC_OPTION_INT,
     .offset = offsetof(lac_train_options, seed),
     .low = 0,
     .high = 9e15,
     .fallback = "0",
     .help = "keys all random numbers"},
    LAC_TEXT_OPTION(lac_train_options, time_limit, "time-limit", "TIME",
                    "write a checkpoint and end when so much time has passed: 2h, 90m, 1h30m or seconds"),
    {.key = "checkpoint-every",
     .type = LAC_OPTION_INT,
     .offset = offsetof(lac_train_options, checkpoint_every),
     .low = 0,
     .high = 1e9,
     .fallback = "600",
     .unit = "seconds",
     .help = "longest time without a checkpoint, besides that of every epoch; 0: none besides"},
    {.key = "timeout",
     .type = LAC_OPTION_INT,
     .offset = offsetof(lac_train_options, timeout),
     .low = 1,
     .high = 1e6,
     .fallback = "600",
     .unit = "seconds",
     .help = "longest silence of another worker that is borne"},
    {.key = "dry-run",
     .type = LAC_OPTION_FLAG,
     .offset = offsetof(lac_train_options, dry_run),
     .help = "print the resolved options and the sizes of data, network and messages, and do nothing"},
    LAC_OPTIONS_END,
};

lac_status lac_parse_duration(lac_session *session, const char *key, const char *text, double *seconds) {
  static const struct {
    char unit;
    double seconds;
  } units[] = {{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}};
  double sum = 0;
  bool fine = *text != 0;
  for (const char *at = text; fine && *at;) {
    char *end;
    double value = strtod(at, &end), factor = *end ? 0 : 1;
    for (int i = 0; i < 4; i++) {
      factor = *end == units[i].unit ? units[i].seconds : factor;
    }
    fine = *at >= '0' && *at <= '9' && factor > 0;
    sum += value * factor;
    at = end + (*end != 0);
  }
  if (!fine || !(sum > 0) || sum > 1e9) {
    return lac_fail(session->context, LAC_E_USAGE, "--%s: found '%s', expected a time as 2h, 90m, 1h30m or 45s", key,
                    text);
  }
  *seconds = sum;
  return LAC_OK;
}
