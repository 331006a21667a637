#include "plan/calibration.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"
#include "laconic/version.h"
#include "math/cpu.h"

/* ---- the machine ------------------------------------------------------------------------------------------------ */

void lac_calibration_text(char text[LAC_CALIBRATION_TEXT], const char *from) {
  snprintf(text, LAC_CALIBRATION_TEXT, "%s", from);
  for (size_t length = strlen(text); length > 0 && !lac_utf8_valid(text, length); length--) {
    text[length - 1] = 0; /* a character was cut */
  }
}

/* The value of a line "model name : …"; false for another. */
static bool take_name(const char *line, char name[LAC_CALIBRATION_TEXT]) {
  const char *colon = strchr(line, ':');
  if (strncmp(line, "model name", strlen("model name")) != 0 || !colon) {
    return false;
  }
  lac_span value = lac_span_trim((lac_span){colon + 1, line + strlen(line)});
  snprintf(name, LAC_CALIBRATION_TEXT, "%.*s", (int)(value.end - value.at), value.at);
  return value.at < value.end && lac_utf8_valid(name, strlen(name));
}

static void find_processor(char name[LAC_CALIBRATION_TEXT]) {
  char line[512];
  bool found = false;
  FILE *file = fopen("/proc/cpuinfo", "re");
  while (file && !found && fgets(line, sizeof line, file)) {
    found = take_name(line, name);
  }
  if (file) {
    fclose(file);
  }
  if (!found) {
    struct utsname system;
    lac_calibration_text(name, uname(&system) == 0 && *system.machine ? system.machine : "unknown");
  }
}

void lac_machine_here(lac_machine *machine) {
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  *machine = (lac_machine){.cores = cores > 0 ? cores : 1};
  find_processor(machine->processor);
  lac_calibration_text(machine->kernels, lac_isa_name(lac_cpu_isa()));
  lac_calibration_text(machine->version, lac_version());
}

bool lac_calibration_is_here(const lac_calibration *calibration, char *reason, size_t size) {
  const lac_machine *made = &calibration->machine;
  lac_machine here;
  lac_machine_here(&here);
  if (strcmp(made->version, here.version) != 0) {
    snprintf(reason, size, "made by laconic %s, this is %s", made->version, here.version);
  } else if (strcmp(made->processor, here.processor) != 0 || made->cores != here.cores) {
    snprintf(reason, size, "made on '%s' with %lld cores, this is '%s' with %lld", made->processor,
             (long long)made->cores, here.processor, (long long)here.cores);
  } else if (strcmp(made->kernels, here.kernels) != 0) {
    snprintf(reason, size, "made with kernels '%s', here are '%s'", made->kernels, here.kernels);
  } else {
    if (size > 0) {
      *reason = 0;
    }
    return true;
  }
  return false;
}

/* ---- the cases -------------------------------------------------------------------------------------------------- */

lac_status lac_calibration_create(lac_context *context, lac_calibration **calibration) {
  LAC_TRY(LAC_NEW(context, 1, calibration));
  lac_machine_here(&(*calibration)->machine);
  return LAC_OK;
}

void lac_calibration_destroy(lac_calibration **calibration) {
  if (*calibration) {
    lac_free((*calibration)->hash);
    lac_free((*calibration)->gradients);
    lac_free((*calibration)->links);
    lac_free(*calibration);
    *calibration = NULL;
  }
}

/* Puts an entry of `size` bytes at `at`, which is *count for a new one. */
static lac_status put(lac_context *context, void **entries, int64_t *count, size_t size, int64_t at, const void *entry,
                      bool *replaced) {
  if (replaced) {
    *replaced = at < *count;
  }
  if (at == *count) {
    void *grown;
    if (*count == LAC_CALIBRATION_CASES) {
      return lac_fail(context, LAC_E_USAGE, "calibration: found more than %d cases of a kind, expected fewer",
                      LAC_CALIBRATION_CASES);
    }
    LAC_TRY(lac_allocate(context, *count + 1, size, &grown));
    if (*count > 0) {
      memcpy(grown, *entries, (size_t)*count * size);
    }
    lac_free(*entries);
    *entries = grown;
    ++*count;
  }
  memcpy((char *)*entries + (size_t)at * size, entry, size);
  return LAC_OK;
}

static bool same_case(const lac_hash_case *a, const lac_hash_case *b) {
  return a->columns == b->columns && a->type == b->type && a->bits == b->bits && a->encoder == b->encoder;
}

lac_status lac_calibration_put_hash(lac_context *context, lac_calibration *calibration, const lac_hash_entry *entry,
                                    bool *replaced) {
  int64_t at = 0;
  while (at < calibration->hash_count && !same_case(&calibration->hash[at].which, &entry->which)) {
    at++;
  }
  return put(context, (void **)&calibration->hash, &calibration->hash_count, sizeof *entry, at, entry, replaced);
}

lac_status lac_calibration_put_gradient(lac_context *context, lac_calibration *calibration,
                                        const lac_gradient_entry *entry, bool *replaced) {
  int64_t at = 0;
  for (; at < calibration->gradient_count; at++) {
    const lac_gradient_entry *other = &calibration->gradients[at];
    if (strcmp(other->model, entry->model) == 0 && other->batch == entry->batch &&
        other->precision == entry->precision && strcmp(other->backend, entry->backend) == 0) {
      break;
    }
  }
  return put(context, (void **)&calibration->gradients, &calibration->gradient_count, sizeof *entry, at, entry,
             replaced);
}

lac_status lac_calibration_put_link(lac_context *context, lac_calibration *calibration, const lac_link_entry *entry,
                                    bool *replaced) {
  int64_t at = 0;
  while (at < calibration->link_count && strcmp(calibration->links[at].backend, entry->backend) != 0) {
    at++;
  }
  return put(context, (void **)&calibration->links, &calibration->link_count, sizeof *entry, at, entry, replaced);
}

/* ---- questions -------------------------------------------------------------------------------------------------- */

/* How far a measured case is from the question: in logarithms of columns and bits; of two at one place the one of the
 * same element type is nearer, and one whose Z step works otherwise (to 16 bits by enumeration) is farther than any
 * that does not. */
static double distance(const lac_hash_case *from, const lac_hash_case *to) {
  enum { EXACT_BITS = 16 };
  double far =
      fabs(log((double)from->columns / (double)to->columns)) + fabs(log((double)from->bits / (double)to->bits));
  return far + (from->type != to->type ? 1e-3 : 0) +
         ((from->bits <= EXACT_BITS) != (to->bits <= EXACT_BITS) ? 1000 : 0);
}

void lac_calibration_hash(const lac_calibration *calibration, const lac_hash_case *which, lac_hash_costs *costs) {
  const lac_hash_entry *nearest = NULL;
  for (int64_t i = 0; calibration && i < calibration->hash_count; i++) {
    const lac_hash_entry *entry = &calibration->hash[i];
    if (entry->which.encoder == which->encoder &&
        (!nearest || distance(&entry->which, which) < distance(&nearest->which, which))) {
      nearest = entry;
    }
  }
  if (!nearest) {
    lac_hash_assumed(which, costs);
  } else if (same_case(&nearest->which, which)) {
    *costs = nearest->costs;
    costs->basis = LAC_BASIS_MEASURED;
  } else {
    lac_hash_scale(nearest, which, costs);
  }
}

/* Nearest first by precision, then by model, then by size; of several back ends the faster. */
static double gradient_distance(const lac_gradient_entry *entry, const char *model, int64_t batch, int precision,
                                double flops) {
  double far = fabs(log(entry->flops / flops)) + fabs(log((double)entry->batch / (double)batch));
  return far + (entry->precision != precision ? 1e6 : 0) + (strcmp(entry->model, model) != 0 ? 1e3 : 0);
}

double lac_calibration_gradient(const lac_calibration *calibration, const char *model, int64_t batch, int precision,
                                double flops, lac_basis *basis) {
  const lac_gradient_entry *nearest = NULL;
  double least = INFINITY;
  for (int64_t i = 0; calibration && i < calibration->gradient_count; i++) {
    const lac_gradient_entry *entry = &calibration->gradients[i];
    double far = gradient_distance(entry, model, batch, precision, flops);
    if (!nearest || far < least || (far == least && entry->seconds < nearest->seconds)) {
      least = far;
      nearest = entry;
    }
  }
  if (!nearest) {
    *basis = LAC_BASIS_ASSUMED;
    return lac_gradient_assumed(batch, flops);
  }
  bool same = strcmp(nearest->model, model) == 0 && nearest->batch == batch && nearest->precision == precision &&
              fabs(nearest->flops / flops - 1) < 1e-6;
  *basis = same ? LAC_BASIS_MEASURED : LAC_BASIS_SCALED;
  double ratio = (double)batch * flops / ((double)nearest->batch * nearest->flops);
  return nearest->seconds * (same ? 1 : ratio);
}

bool lac_calibration_link(const lac_calibration *calibration, const char *backend, double *message, double *byte) {
  for (int64_t i = 0; calibration && i < calibration->link_count; i++) {
    if (strcmp(calibration->links[i].backend, backend) == 0) {
      *message = calibration->links[i].message;
      *byte = calibration->links[i].byte;
      return true;
    }
  }
  return false;
}
