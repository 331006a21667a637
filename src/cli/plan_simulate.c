#include "cli/plan_simulate.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/arguments.h"
#include "cli/data_options.h"
#include "cli/output.h"
#include "cli/plan_report.h"
#include "cli/quantity.h"
#include "cli/subprocess.h"

/* ---- the parts that SimGrid brings ------------------------------------------------------------------------------- */

static lac_status no_memory(lac_session *session) {
  return lac_fail(session->context, LAC_E_MEMORY, "cannot allocate the command of a simulation");
}

/* A file of this program's: beside it, as it is built, or in the folder for such files, as it is installed. */
static bool find_part(const char *name, char path[PATH_MAX]) {
  char self[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  if (length <= 0) {
    return false;
  }
  self[length] = 0;
  *strrchr(self, '/') = 0;
  static const char *const places[] = {".", LACONIC_HELPERS};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    if (snprintf(path, PATH_MAX, "%s/%s/%s", self, places[i], name) < PATH_MAX && access(path, R_OK) == 0) {
      return true;
    }
  }
  return false;
}

static lac_status require_part(lac_session *session, const char *option, const char *name, char path[PATH_MAX]) {
  return find_part(name, path) ? LAC_OK
                               : lac_fail(session->context, LAC_E_UNSUPPORTED,
                                          "--%s: found no %s beside the program, expected one, which is built where "
                                          "the package libsimgrid-dev is installed",
                                          option, name);
}

/* ---- the cluster ------------------------------------------------------------------------------------------------ */

static lac_status read_platform(lac_session *session, const char *path, const lac_plan_cluster *cluster,
                                lac_captured *out) {
  char program[PATH_MAX], numbers[LAC_SIZES][24], *argv[LAC_SIZES + 3] = {program, (char *)path};
  CLI_TRY(require_part(session, "cluster", "laconic-platform", program));
  for (int i = 0; i < cluster->size_count; i++) {
    snprintf(numbers[i], sizeof numbers[i], "%" PRId64, cluster->sizes[i]);
    argv[i + 2] = numbers[i];
  }
  CLI_TRY(lac_run_program(session, argv, out));
  if (out->code != 0) {
    const char *line = strncmp(out->error, "laconic-platform: ", 18) == 0 ? out->error + 18 : out->error;
    bool named = strstr(line, path);
    return lac_fail(session->context, LAC_E_INPUT, "%s%s%s", named ? "" : path, named ? "" : ": ",
                    *line ? line : "cannot be read as a SimGrid platform");
  }
  return LAC_OK;
}

static int most_workers(const lac_plan_cluster *cluster) {
  return (int)cluster->sizes[cluster->size_count - 1];
}

void lac_plan_cluster_size(lac_plan_cluster *cluster, int workers) {
  for (int i = 0; cluster->of_size && i < cluster->size_count; i++) {
    if (cluster->sizes[i] == workers) {
      cluster->cluster = cluster->of_size[i];
    }
  }
}

static void say_network(lac_session *session, const char *path, const lac_plan_cluster *cluster) {
  lac_print_note(session,
                 "%s is taken as its slowest route: at %d workers %.4g Mbit/s and %.4g us; what hosts share of it only "
                 "--simulate knows\n",
                 path, most_workers(cluster), 8e-6 * cluster->cluster.bandwidth, 1e6 * cluster->cluster.latency);
}

static lac_status take_platform(lac_session *session, const char *path, const json_t *platform,
                                lac_plan_cluster *cluster) {
  json_t *hosts = json_object_get(platform, "hosts"), *networks = json_object_get(platform, "networks");
  int limit = most_workers(cluster);
  void *memory;
  if (!json_array_size(hosts) || (int)json_array_size(networks) != cluster->size_count) {
    return lac_fail(session->context, LAC_E_INPUT, "%s: cannot be read as a SimGrid platform", path);
  }
  if ((int64_t)json_array_size(hosts) < limit) {
    return lac_fail(session->context, LAC_E_INPUT, "%s: found %zu hosts, expected at least one for each of %d workers",
                    path, json_array_size(hosts), limit);
  }
  double first = json_number_value(json_object_get(json_array_get(hosts, 0), "speed"));
  for (int i = 0; i < limit; i++) {
    cluster->speeds[i] = json_number_value(json_object_get(json_array_get(hosts, (size_t)i), "speed")) / first;
  }
  cluster->hosts = json_incref(hosts);
  CLI_TRY(lac_session_allocate(session, cluster->size_count, sizeof *cluster->of_size, &memory));
  cluster->of_size = memory;
  for (int i = 0; i < cluster->size_count; i++) {
    const json_t *network = json_array_get(networks, (size_t)i);
    cluster->of_size[i] = (lac_cluster){.latency = json_number_value(json_object_get(network, "latency")),
                                        .bandwidth = json_number_value(json_object_get(network, "bandwidth")),
                                        .speeds = cluster->speeds};
  }
  lac_plan_cluster_size(cluster, limit);
  say_network(session, path, cluster);
  return LAC_OK;
}

static lac_status open_platform(lac_session *session, const char *path, lac_plan_cluster *cluster) {
  lac_captured out = {0};
  lac_status status = read_platform(session, path, cluster, &out);
  if (!status) {
    json_t *platform = json_loads(out.text ? out.text : "", 0, NULL);
    status = take_platform(session, path, platform, cluster);
    json_decref(platform);
  }
  free(out.text);
  return status;
}

lac_status lac_plan_cluster_open(lac_session *session, const lac_plan_cluster_options *options, const int64_t *sizes,
                                 int size_count, lac_plan_cluster *cluster) {
  void *memory;
  lac_network network;
  *cluster = (lac_plan_cluster){.sizes = sizes, .size_count = size_count};
  int limit = most_workers(cluster);
  const char *also = options->network ? "network" : "speeds";
  if (options->cluster && (options->network || options->speeds)) {
    return lac_fail(session->context, LAC_E_USAGE, "--cluster: found with --%s, expected one of both", also);
  }
  CLI_TRY(lac_session_allocate(session, limit, sizeof(double), &memory));
  cluster->speeds = memory;
  cluster->given = true;
  if (options->cluster) {
    return open_platform(session, options->cluster, cluster);
  }
  CLI_TRY(lac_parse_network(session, "network", options->network ? options->network : "1Gbit,50us", &network));
  cluster->cluster = (lac_cluster){.latency = network.latency, .bandwidth = network.bandwidth};
  if (options->speeds) {
    CLI_TRY(lac_parse_speeds(session, "speeds", options->speeds, limit, cluster->speeds));
    cluster->cluster.speeds = cluster->speeds;
  }
  return LAC_OK;
}

void lac_plan_cluster_close(lac_plan_cluster *cluster) {
  free(cluster->speeds);
  free(cluster->of_size);
  json_decref(cluster->hosts);
  *cluster = (lac_plan_cluster){0};
}

/* ---- simulated runs --------------------------------------------------------------------------------------------- */

static double number_of(const json_t *line, const char *key) {
  const json_t *value = json_object_get(line, key);
  return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

void lac_plan_read_json(const json_t *line, lac_plan *plan, lac_link *links) {
  const json_t *seconds = json_object_get(line, "seconds");
  double memory = number_of(line, "memory_per_worker");
  *plan = (lac_plan){.workers = json_integer_value(json_object_get(line, "workers")),
                     .speedup = number_of(line, "speedup"),
                     .efficiency = number_of(line, "efficiency"),
                     .messages = number_of(line, "messages"),
                     .bytes = number_of(line, "bytes"),
                     .link_bytes = number_of(line, "link_bytes"),
                     .memory = memory > 0 ? memory : 0,
                     .seconds = {.w = number_of(seconds, "w"),
                                 .z = number_of(seconds, "z"),
                                 .serial = number_of(seconds, "serial"),
                                 .communication = number_of(seconds, "communication"),
                                 .waiting = number_of(seconds, "waiting"),
                                 .total = number_of(seconds, "total")}};
  for (int64_t i = 0; links && i < plan->workers; i++) {
    const json_t *link = json_array_get(json_object_get(line, "links"), (size_t)i);
    links[i] = (lac_link){number_of(link, "messages"), number_of(link, "bytes")};
  }
}

bool lac_plan_fits_here(const lac_plan_cluster_options *options, int workers, double bytes, double seconds) {
  double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
  return workers <= lac_world_cores() && seconds <= options->real_limit && workers * bytes <= memory / 2;
}

lac_status lac_plan_check_ranks(lac_session *session, const char *command, bool one_rehearsal, int workers) {
  if (!lac_world_smpi()) {
    return session->ranks == 1
               ? LAC_OK
               : lac_fail(session->context, LAC_E_USAGE, "%s: found %d ranks, expected one: start it without mpiexec",
                          command, session->ranks);
  }
  if (!one_rehearsal || workers != session->ranks) {
    return lac_fail(session->context, LAC_E_USAGE, "%s: found %d simulated ranks, expected --rehearse --workers %d",
                    command, session->ranks, session->ranks);
  }
  return LAC_OK;
}

/* What a simulated process takes beside its job, measured with 128 and 1,024 of them. */
static const double RANK_BYTES = 2e6;

lac_status lac_simulation_check(lac_session *session, int workers, double bytes) {
  char path[PATH_MAX], needed[32], have[32];
  lac_captured out;
  char *argv[] = {(char *)"smpirun", (char *)"-version", NULL};
  CLI_TRY(require_part(session, "simulate", "laconic-smpi.so", path));
  lac_status status = lac_run_program(session, argv, &out);
  free(out.text);
  if (status && status != LAC_E_IO) {
    return status;
  }
  if (status || out.code != 0) {
    return lac_fail(session->context, LAC_E_UNSUPPORTED,
                    "--simulate: found no program smpirun, expected SimGrid's: install the package libsimgrid-dev");
  }
  if (workers > LAC_WORKERS_LIMIT) {
    return lac_fail(session->context, LAC_E_USAGE, "--simulate: found %d workers, expected at most %d", workers,
                    LAC_WORKERS_LIMIT);
  }
  double all = workers * (bytes + RANK_BYTES);
  double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
  if (all > memory) {
    return lac_fail(session->context, LAC_E_USAGE,
                    "--simulate: found %d workers, whose simulation takes about %s of memory, expected no more than "
                    "fit in %s",
                    workers, lac_bytes_text(all, needed), lac_bytes_text(memory, have));
  }
  return LAC_OK;
}

lac_status lac_rehearsal_check(lac_session *session, int workers, double bytes) {
  const double stack = 256e3;
  double all = workers * (bytes + stack), memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
  char needed[32], have[32];
  if (workers > LAC_WORKERS_LIMIT || all > memory / 2) {
    return lac_fail(session->context, LAC_E_USAGE,
                    "--rehearse: found %d workers, which take some %s, expected at most %d in half of the %s of this "
                    "machine",
                    workers, lac_bytes_text(all, needed), LAC_WORKERS_LIMIT, lac_bytes_text(memory, have));
  }
  return LAC_OK;
}

/* A folder of its own for a run: the simulator keeps its files there, too. */
typedef struct run_folder {
  char path[PATH_MAX / 2], platform[PATH_MAX], hosts[PATH_MAX];
} run_folder;

static lac_status make_folder(lac_session *session, run_folder *folder) {
  const char *place = getenv("TMPDIR");
  place = place && *place ? place : "/tmp";
  int length = snprintf(folder->path, sizeof folder->path, "%s/laconic-XXXXXX", place);
  errno = ENAMETOOLONG;
  if (length >= (int)sizeof folder->path || !mkdtemp(folder->path)) {
    return lac_fail(session->context, LAC_E_IO, "%s: cannot make a folder in it: %s", place, strerror(errno));
  }
  snprintf(folder->platform, sizeof folder->platform, "%s/platform.xml", folder->path);
  snprintf(folder->hosts, sizeof folder->hosts, "%s/hosts", folder->path);
  return LAC_OK;
}

static void drop_folder(const run_folder *folder) {
  DIR *files = opendir(folder->path);
  for (const struct dirent *file; files && (file = readdir(files));) {
    unlinkat(dirfd(files), file->d_name, 0); /* not itself and its parent, which are folders */
  }
  if (files) {
    closedir(files);
  }
  rmdir(folder->path);
}

/* Bytes a second in numbers: 0 is no limit. */
static double bandwidth_of(const lac_plan_cluster *cluster) {
  return cluster->cluster.bandwidth > 0 ? cluster->cluster.bandwidth : 1e18;
}

static double speed_of(const lac_plan_cluster *cluster, int worker) {
  return cluster->cluster.speeds ? cluster->cluster.speeds[worker] : 1;
}

/* Hosts around a crossbar, each with a link of its own: half the latency on the way out, half on the way in. */
static void write_star(FILE *file, const lac_plan_cluster *cluster, int workers) {
  fprintf(file,
          "<?xml version=\"1.0\"?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
          "<platform version=\"4.1\">\n<zone id=\"cluster\" routing=\"Cluster\">\n");
  for (int i = 0; i < workers; i++) {
    fprintf(file,
            "<host id=\"host%d\" speed=\"%.17gGf\"/>\n<link id=\"link%d\" bandwidth=\"%.17gBps\" latency=\"%.17gs\" "
            "sharing_policy=\"SPLITDUPLEX\"/>\n<host_link id=\"host%d\" up=\"link%d_UP\" down=\"link%d_DOWN\"/>\n",
            i, speed_of(cluster, i), i, bandwidth_of(cluster), cluster->cluster.latency / 2, i, i, i);
  }
  fprintf(file, "</zone>\n</platform>\n");
}

static lac_status write_files(lac_session *session, const lac_plan_cluster *cluster, int workers,
                              const run_folder *folder) {
  FILE *hosts = fopen(folder->hosts, "w"), *platform = fopen(folder->platform, "w");
  for (int i = 0; hosts && i < workers; i++) {
    const char *name = json_string_value(json_object_get(json_array_get(cluster->hosts, (size_t)i), "name"));
    fprintf(hosts, name ? "%s\n" : "%shost%d\n", name ? name : "", i);
  }
  if (platform) {
    write_star(platform, cluster, workers);
  }
  bool whole = hosts && platform && !ferror(hosts) && !ferror(platform);
  whole = (!hosts || fclose(hosts) == 0) && whole;
  whole = (!platform || fclose(platform) == 0) && whole;
  return whole ? LAC_OK
               : lac_fail(session->context, LAC_E_IO, "%s: cannot write the simulated cluster: %s", folder->path,
                          strerror(errno));
}

/* The words of a command line, which smpirun splits at white space again. */
typedef struct words {
  char **word;
  int count, room;
} words;

static lac_status add_word(lac_session *session, words *line, const char *format, ...) LAC_PRINTF(3, 4);

static lac_status add_word(lac_session *session, words *line, const char *format, ...) {
  if (line->count + 2 > line->room) {
    int room = line->room ? 2 * line->room : 64;
    char **grown = realloc(line->word, (size_t)room * sizeof *grown);
    if (!grown) {
      return no_memory(session);
    }
    line->word = grown;
    line->room = room;
  }
  va_list arguments;
  va_start(arguments, format);
  char *text = NULL;
  int length = vasprintf(&text, format, arguments);
  va_end(arguments);
  if (length < 0) {
    return no_memory(session);
  }
  line->word[line->count++] = text;
  line->word[line->count] = NULL;
  if (strpbrk(text, " \t\n")) {
    return lac_fail(session->context, LAC_E_USAGE, "--simulate: found '%.80s', expected options without white space",
                    text);
  }
  return LAC_OK;
}

static void drop_words(words *line) {
  for (int i = 0; i < line->count; i++) {
    free(line->word[i]);
  }
  free(line->word);
}

/* As tests/house/smpirun.sh, which says why. */
static const char *const simulator_options[] = {"-quiet",
                                                "--cfg=network/model:CM02",
                                                "--cfg=network/TCP-gamma:0",
                                                "--cfg=network/crosstraffic:0",
                                                "--cfg=network/weight-S:0",
                                                "--cfg=smpi/send-is-detached-thresh:2147483647",
                                                "--cfg=smpi/async-small-thresh:2147483647",
                                                "--cfg=smpi/simulate-computation:no",
                                                "--cfg=smpi/cpu-threshold:0",
                                                "--cfg=smpi/privatization:dlopen",
                                                "--cfg=smpi/test:0",
                                                "--cfg=smpi/iprobe:0",
                                                "--cfg=smpi/wtime:0",
                                                "--cfg=smpi/init:0",
                                                "--log=root.thresh:error",
                                                "--log=smpi_kernel.thresh:critical",
                                                NULL};

static bool is_listed(const char *key, const char *const *keys) {
  while (*keys && strcmp(*keys, key) != 0) {
    keys++;
  }
  return *keys;
}

static lac_status add_option(lac_session *session, const lac_option *option, const void *options, words *line) {
  char *text;
  CLI_TRY(lac_options_get(session->context, option, options, &text));
  lac_status status = LAC_OK;
  if (text && option->type == LAC_OPTION_FLAG) {
    status = add_word(session, line, "--%s%s", strcmp(text, "true") == 0 ? "" : "no-", option->key);
  } else if (text) {
    status = add_word(session, line, "--%s=%s", option->key, text);
  }
  free(text);
  return status;
}

static lac_status add_options(lac_session *session, const lac_command *command, const void *options,
                              const char *const *left_out, words *line) {
  static const char *const own[] = {"network",  "cluster", "speeds",     "workers", "rehearse",
                                    "simulate", "plot",    "real-limit", NULL};
  for (const lac_option_group *group = command->groups; group->title; group++) {
    for (const lac_option *option = lac_group_options(group); option->key; option++) {
      if (!is_listed(option->key, own) && !(left_out && is_listed(option->key, left_out))) {
        CLI_TRY(add_option(session, option, (const char *)options + group->offset, line));
      }
    }
  }
  return LAC_OK;
}

static lac_status add_command(lac_session *session, const lac_command *command, words *line) {
  char name[64];
  snprintf(name, sizeof name, "%s", command->name);
  for (char *rest = name, *word; (word = strtok_r(rest, " ", &rest));) {
    CLI_TRY(add_word(session, line, "%s", word));
  }
  return LAC_OK;
}

/* The cluster as the ranks are to know it: in numbers, whatever it was read from. */
static lac_status add_cluster(lac_session *session, const lac_plan_cluster *cluster, int workers, words *line) {
  const lac_cluster *known = &cluster->cluster;
  if (!cluster->given) {
    return LAC_OK;
  }
  CLI_TRY(add_word(session, line, "--network=%.17gB,%.17gs", bandwidth_of(cluster), known->latency));
  if (!known->speeds) {
    return LAC_OK;
  }
  char *list = NULL;
  size_t bytes;
  FILE *text = open_memstream(&list, &bytes);
  if (!text) {
    return no_memory(session);
  }
  for (int i = 0; i < workers; i++) {
    fprintf(text, "%s%.17g", i ? "," : "", known->speeds[i]);
  }
  fclose(text);
  lac_status status = list ? add_word(session, line, "--speeds=%s", list) : no_memory(session);
  free(list);
  return status;
}

static lac_status make_line(lac_session *session, const lac_command *command, const void *options,
                            const char *const *left_out, const char *const *added, const char *platform,
                            const run_folder *folder, const lac_plan_cluster *cluster, int workers, words *line) {
  char module[PATH_MAX];
  double speed = json_number_value(json_object_get(json_array_get(cluster->hosts, 0), "speed"));
  CLI_TRY(require_part(session, "simulate", "laconic-smpi.so", module));
  CLI_TRY(add_word(session, line, "env")); /* smpirun takes its folder from there alone */
  CLI_TRY(add_word(session, line, "TMPDIR=%s", folder->path));
  CLI_TRY(add_word(session, line, "smpirun"));
  for (const char *const *option = simulator_options; *option; option++) {
    CLI_TRY(add_word(session, line, "%s", *option));
  }
  if (cluster->in_turn && !platform) { /* the links of a platform file may be anything */
    CLI_TRY(add_word(session, line, "--cfg=maxmin/concurrency-limit:1"));
  }
  CLI_TRY(add_word(session, line, "--cfg=smpi/host-speed:%.17gf", speed > 0 ? speed : 1e9));
  CLI_TRY(add_word(session, line, "-np"));
  CLI_TRY(add_word(session, line, "%d", workers));
  CLI_TRY(add_word(session, line, "-platform"));
  CLI_TRY(add_word(session, line, "%s", platform ? platform : folder->platform));
  CLI_TRY(add_word(session, line, "-hostfile"));
  CLI_TRY(add_word(session, line, "%s", folder->hosts));
  CLI_TRY(add_word(session, line, "%s", module));
  CLI_TRY(add_command(session, command, line));
  CLI_TRY(add_options(session, command, options, left_out, line));
  for (; added && *added; added++) {
    CLI_TRY(add_word(session, line, "%s", *added));
  }
  CLI_TRY(add_cluster(session, cluster, workers, line));
  CLI_TRY(add_word(session, line, "--json"));
  CLI_TRY(add_word(session, line, "--rehearse"));
  return add_word(session, line, "--workers=%d", workers);
}

/* The first line of the output that has this key. */
static json_t *find_line(const char *text, const char *key) {
  while (text && *text) {
    json_t *line = json_loads(text, JSON_DISABLE_EOF_CHECK, NULL);
    if (line && json_object_get(line, key)) {
      return line;
    }
    json_decref(line);
    text = strchr(text, '\n');
    text = text ? text + 1 : NULL;
  }
  return NULL;
}

static lac_status run_line(lac_session *session, const words *line, int workers, json_t **found) {
  lac_captured out;
  lac_status status = lac_run_program(session, line->word, &out);
  json_t *done =
      status ? NULL : find_line(out.text, "best_workers"); /* a deadlock ends with status 0, and without it */
  *found = done ? find_line(out.text, "workers") : NULL;
  json_decref(done);
  free(out.text);
  if (!status && !*found) {
    const char *said = strncmp(out.error, "laconic: ", 9) == 0 ? out.error + 9 : out.error;
    status =
        lac_fail(session->context, out.code == 2 ? LAC_E_USAGE : LAC_E_IO,
                 "the simulation of %d workers ended with status %d%s%s", workers, out.code, *said ? ": " : "", said);
  }
  return status;
}

lac_status lac_simulate(lac_session *session, const lac_command *command, const void *options,
                        const char *const *left_out, const char *const *added, const lac_plan_cluster_options *where,
                        const lac_plan_cluster *cluster, int workers, json_t **line) {
  run_folder folder;
  words said = {0};
  *line = NULL;
  CLI_TRY(make_folder(session, &folder));
  lac_status status = write_files(session, cluster, workers, &folder);
  if (!status) {
    status = make_line(session, command, options, left_out, added, where->cluster, &folder, cluster, workers, &said);
  }
  if (!status) {
    status = run_line(session, &said, workers, line);
  }
  drop_words(&said);
  drop_folder(&folder);
  return status;
}
