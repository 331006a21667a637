/* Options that several commands have, and what they mean. */
#ifndef LACONIC_CLI_DATA_OPTIONS_H
#define LACONIC_CLI_DATA_OPTIONS_H

#include <stdio.h>

#include "cli/session.h"

/* The names that lac_dataset_formats gives, for help texts: a test compares the two. */
#define LAC_FORMATS_TEXT "idx, cifar10, cifar100, fvecs, bvecs, ivecs, npy, hdf5, fbin, u8bin or csv"

/* By which completion knows an option whose value is a format. */
#define LAC_FORMAT_UNIT "FORMAT"

#define LAC_FORMAT_OPTION(struct_type, member, name, files)                                                   \
  {                                                                                                           \
    .key = (name), .type = LAC_OPTION_TEXT, .offset = offsetof(struct_type, member), .unit = LAC_FORMAT_UNIT, \
    .help = "read " files " as this format instead of recognising it: " LAC_FORMATS_TEXT                      \
  }

#define LAC_THREADS_OPTION(struct_type, member)                                                                \
  {                                                                                                            \
    .key = "threads", .type = LAC_OPTION_INT, .offset = offsetof(struct_type, member), .low = 0, .high = 1024, \
    .fallback = "0", .help = "threads to work with, 0 for one per core; the result does not depend on it"      \
  }

#define LAC_TEXT_OPTION(struct_type, member, name, placeholder, text)                                       \
  {                                                                                                         \
    .key = (name), .type = LAC_OPTION_TEXT, .offset = offsetof(struct_type, member), .unit = (placeholder), \
    .help = (text)                                                                                          \
  }

#define LAC_ROWS_OPTION(struct_type, member, name, file)                                                    \
  {                                                                                                         \
    .key = (name), .type = LAC_OPTION_INT, .offset = offsetof(struct_type, member), .low = 0, .high = 1e18, \
    .fallback = "0", .unit = "rows", .help = "use only so many of the first rows of " file ", 0 for all"    \
  }

/* Labelled pictures, and which part of them. */
#define LAC_DATA_OPTION(struct_type, member)                                                         \
  {                                                                                                  \
    .key = "data", .type = LAC_OPTION_TEXT, .offset = offsetof(struct_type, member), .unit = "DATA", \
    .help =                                                                                          \
        "the labelled pictures: mnist:DIR, fashion-mnist:, fashion-mnist:DIR, cifar10:DIR, or "      \
        "PICTURES+LABELS, two files"                                                                 \
  }

#define LAC_PART_OPTION(struct_type, member, part)                                                            \
  {                                                                                                           \
    .key = "part", .type = LAC_OPTION_NAME, .offset = offsetof(struct_type, member), .names = lac_part_names, \
    .fallback = (part), .help = "the part of a named set to take; PICTURES+LABELS has but one"                \
  }

#define LAC_BATCH_OPTION(struct_type, member)                                                               \
  {                                                                                                         \
    .key = "batch", .type = LAC_OPTION_INT, .offset = offsetof(struct_type, member), .low = 1, .high = 1e6, \
    .fallback = "128", .unit = "pictures", .help = "how many are computed at once"                          \
  }

/* train, test: as lac_images_part. */
extern const char *const lac_part_names[];

/* That --data was given. Errors: USAGE. */
LAC_MUST_USE lac_status lac_require_data(lac_session *session, const char *command, const char *data);

/* Opens a file and cuts it to its first `limit` rows, 0 for all. Errors: those of lac_dataset_open. */
LAC_MUST_USE lac_status lac_open_rows(lac_session *session, const char *path, const char *format, int64_t limit,
                                      lac_dataset **dataset);

/* A regular file for reading; NULL for anything else: opening a pipe that nobody writes would wait for ever. */
FILE *lac_open_regular(const char *path);

/* That -o was given. Errors: USAGE. */
LAC_MUST_USE lac_status lac_require_output(lac_session *session, const char *command, const char *path);

/* A file that a command was given: the option or operand it is called by, and whether it is to be written. */
typedef struct lac_file_use {
  const char *name, *path; /* path NULL: not given */
  bool written;
} lac_file_use;

/* That no file that is written is also read, or written twice, whatever the names lead to it. Errors: USAGE naming the
 * two. */
LAC_MUST_USE lac_status lac_check_apart(lac_session *session, const lac_file_use *files, int count);

/* That a model takes vectors as wide as the dataset's. Errors: INPUT naming both. */
LAC_MUST_USE lac_status lac_check_columns(lac_session *session, const char *model_path, const lac_hash *model,
                                          const lac_dataset *dataset);

/* What --threads asks for. */
int64_t lac_threads_of(int64_t option);

#endif
