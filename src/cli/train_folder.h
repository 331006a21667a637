/* The folder of a run: options.json (what the run was asked, and resolved), metrics.jsonl (a JSON line per epoch),
 * checkpoint.safetensors (to go on from), best.safetensors and last.safetensors (models). */
#ifndef LACONIC_CLI_TRAIN_FOLDER_H
#define LACONIC_CLI_TRAIN_FOLDER_H

#include <jansson.h>

#include "cli/train.h"

typedef struct lac_train_folder {
  char *path;
  int64_t lines; /* of metrics.jsonl */
  int lock;      /* descriptor that holds the folder, or -1 */
} lac_train_folder;

/* DIR of --run, else the output's name with .run in place of .safetensors; malloc'ed. Errors: MEMORY. */
LAC_MUST_USE lac_status lac_train_folder_name(lac_session *session, const lac_train_options *options, char **path);

/* Whether a new run could be put there: a folder that holds a run is an error without --overwrite. Changes nothing.
 * Errors: OUTPUT. */
LAC_MUST_USE lac_status lac_train_folder_check(lac_session *session, const lac_train_options *options,
                                               const char *path);

/* Makes the folder of a new run, which has been checked, and writes its options; what a former run left there goes.
 * Errors: OUTPUT, also while another process runs there; IO, MEMORY. */
LAC_MUST_USE lac_status lac_train_folder_create(lac_session *session, const lac_train_options *options,
                                                const char *path, lac_train_folder *folder);

/* The folder of a run that is taken up: metrics.jsonl is cut to its first `lines` lines, as many whole ones as it has,
 * and the options are now these. Errors: INPUT, OUTPUT as above, IO, MEMORY. */
LAC_MUST_USE lac_status lac_train_folder_reopen(lac_session *session, const lac_train_options *options,
                                                const char *path, int64_t lines, lac_train_folder *folder);
void lac_train_folder_close(lac_train_folder *folder);

/* That the output is none of the folder's own files. Errors: USAGE. */
LAC_MUST_USE lac_status lac_train_folder_apart(lac_session *session, const char *path, const char *output);

/* Copies a file of the folder to an output. Errors: IO, OUTPUT, MEMORY. */
LAC_MUST_USE lac_status lac_train_folder_copy(lac_session *session, const char *path, const char *name,
                                              const char *output);

/* Fills options from options.json of the folder that options->resume names. Errors: INPUT naming file and key. */
LAC_MUST_USE lac_status lac_train_folder_recall(lac_session *session, const char *path, void *options);

/* PATH/NAME into full[0..bytes). Errors: USAGE when it is too long. */
LAC_MUST_USE lac_status lac_train_folder_file(lac_session *session, const char *path, const char *name, char *full,
                                              size_t bytes);

/* Appends a line to metrics.jsonl. Errors: IO. */
LAC_MUST_USE lac_status lac_train_folder_add(lac_context *context, lac_train_folder *folder, const json_t *line);

#endif
