#include "hash/nearest.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { SLACK = 512, DIGIT_BITS = 11, DIGITS = 6, BUCKETS = 1 << DIGIT_BITS };

int64_t lac_nearest_capacity(int64_t k, int64_t burst) {
  return k + (k > SLACK ? k : SLACK) + burst;
}

lac_status lac_nearest_tools_create(lac_context *context, int64_t capacity, lac_settle_fn settle, void *argument,
                                    lac_nearest_tools *tools) {
  *tools = (lac_nearest_tools){.settle = settle};
  tools->argument = argument;
  LAC_TRY(LAC_NEW(context, capacity, &tools->uppers));
  LAC_TRY(LAC_NEW(context, capacity, &tools->keys));
  LAC_TRY(LAC_NEW(context, capacity, &tools->other_keys));
  return LAC_NEW(context, capacity, &tools->other);
}

void lac_nearest_tools_free(lac_nearest_tools *tools) {
  lac_free(tools->uppers);
  lac_free(tools->keys);
  lac_free(tools->other_keys);
  lac_free(tools->other);
  *tools = (lac_nearest_tools){0};
}

static double lower_of(const lac_candidate *candidate) {
  return candidate->key - (double)candidate->error;
}

static double upper_of(const lac_candidate *candidate) {
  return candidate->key + (double)candidate->error;
}

static void swap(double *a, double *b) {
  double held = *a;
  *a = *b;
  *b = held;
}

/* Puts the median of three at `first`, the pivot. */
static void choose_pivot(double *values, int64_t first, int64_t last) {
  double *low = &values[first], *middle = &values[first + (last - first) / 2], *high = &values[last];
  if (*middle < *low) {
    swap(middle, low);
  }
  if (*high < *middle) {
    swap(high, middle);
  }
  if (*middle < *low) {
    swap(middle, low);
  }
  swap(low, middle);
}

/* The value that would be at `rank` in rising order; reorders values (Hoare's selection). */
static double select_rank(double *values, int64_t count, int64_t rank) {
  int64_t first = 0, last = count - 1;
  while (first < last) {
    choose_pivot(values, first, last);
    double pivot = values[first];
    int64_t i = first - 1, j = last + 1;
    for (;;) {
      do {
        i++;
      } while (values[i] < pivot);
      do {
        j--;
      } while (values[j] > pivot);
      if (i >= j) {
        break;
      }
      swap(&values[i], &values[j]);
    }
    if (rank <= j) {
      last = j;
    } else {
      first = j + 1;
    }
  }
  return values[rank];
}

/* Drops what cannot be among the k nearest. With every key exact, k are left. */
static void drop_far(lac_nearest *nearest, const lac_nearest_tools *tools) {
  if (nearest->count <= nearest->k) {
    return;
  }
  for (int64_t i = 0; i < nearest->count; i++) {
    tools->uppers[i] = upper_of(&nearest->list[i]);
  }
  double limit = select_rank(tools->uppers, nearest->count, nearest->k - 1);
  int64_t equal = nearest->k; /* exact keys at the limit that still have a place, by lower id */
  for (int64_t i = 0; i < nearest->count; i++) {
    equal -= upper_of(&nearest->list[i]) < limit;
  }
  int64_t kept = 0;
  for (int64_t i = 0; i < nearest->count; i++) {
    lac_candidate candidate = nearest->list[i];
    bool at_limit = candidate.error == 0 && candidate.key == limit;
    nearest->list[kept] = candidate;
    kept += at_limit ? equal > 0 : lower_of(&candidate) <= limit;
    equal -= at_limit;
  }
  nearest->count = kept;
  nearest->limit = limit;
}

static lac_status settle_all(lac_context *context, lac_nearest *nearest, const lac_nearest_tools *tools) {
  for (int64_t i = 0; i < nearest->count; i++) {
    lac_candidate *candidate = &nearest->list[i];
    if (candidate->error > 0) {
      LAC_TRY(tools->settle(tools->argument, context, candidate->id, &candidate->key));
      candidate->error = 0;
    }
  }
  return LAC_OK;
}

lac_status lac_nearest_thin(lac_context *context, lac_nearest *nearest, int64_t burst, const lac_nearest_tools *tools) {
  if (nearest->count + burst <= nearest->capacity) {
    return LAC_OK;
  }
  drop_far(nearest, tools);
  if (nearest->count + burst > nearest->capacity) { /* too many that float32 cannot tell apart */
    LAC_TRY(settle_all(context, nearest, tools));
    drop_far(nearest, tools);
  }
  return LAC_OK;
}

/* Unsigned integers in the order of the doubles; equal for -0 and 0. */
static uint64_t ordered_bits(double value) {
  uint64_t bits;
  value += 0.0;
  memcpy(&bits, &value, sizeof bits);
  return bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;
}

/* One stable pass of a radix sort; false when all keys have the same digit and nothing was moved. */
static bool sort_digit(int digit, int64_t count, const uint64_t *keys, const lac_candidate *list, uint64_t *to_keys,
                       lac_candidate *to_list) {
  int64_t place[BUCKETS] = {0}, next = 0;
  int shift = digit * DIGIT_BITS;
  for (int64_t i = 0; i < count; i++) {
    place[keys[i] >> shift & (BUCKETS - 1)]++;
  }
  if (place[keys[0] >> shift & (BUCKETS - 1)] == count) {
    return false;
  }
  for (int b = 0; b < BUCKETS; b++) {
    int64_t here = place[b];
    place[b] = next;
    next += here;
  }
  for (int64_t i = 0; i < count; i++) {
    int64_t to = place[keys[i] >> shift & (BUCKETS - 1)]++;
    to_keys[to] = keys[i];
    to_list[to] = list[i];
  }
  return true;
}

/* Sorts by lower end of the interval, stably: in a list by rising id, equal exact keys stay so. */
static void sort_by_lower(lac_nearest *nearest, const lac_nearest_tools *tools) {
  uint64_t *keys = tools->keys, *to_keys = tools->other_keys;
  lac_candidate *list = nearest->list, *to_list = tools->other;
  for (int64_t i = 0; i < nearest->count; i++) {
    keys[i] = ordered_bits(lower_of(&list[i]));
  }
  for (int digit = 0; digit < DIGITS && nearest->count > 0; digit++) {
    if (sort_digit(digit, nearest->count, keys, list, to_keys, to_list)) {
      uint64_t *held_keys = keys;
      lac_candidate *held_list = list;
      keys = to_keys;
      list = to_list;
      to_keys = held_keys;
      to_list = held_list;
    }
  }
  if (list != nearest->list) {
    memcpy(nearest->list, list, (size_t)nearest->count * sizeof *list);
  }
}

static int by_key_and_id(const void *left, const void *right) {
  const lac_candidate *a = left, *b = right;
  if (a->key != b->key) {
    return a->key < b->key ? -1 : 1;
  }
  return (a->id > b->id) - (a->id < b->id);
}

/* End of the group of intervals that begins at `first`, in order of their lower ends: none of it meets one after it. */
static int64_t group_end(const lac_nearest *nearest, int64_t first, bool *exact) {
  const lac_candidate *list = nearest->list;
  double upper = upper_of(&list[first]);
  *exact = list[first].error == 0;
  int64_t i = first + 1;
  for (; i < nearest->count && lower_of(&list[i]) <= upper; i++) {
    double next = upper_of(&list[i]);
    upper = next > upper ? next : upper;
    *exact = *exact && list[i].error == 0;
  }
  return i;
}

int64_t lac_nearest_close(lac_nearest *nearest, const lac_nearest_tools *tools) {
  drop_far(nearest, tools);
  sort_by_lower(nearest, tools);
  int64_t open = 0, end;
  for (int64_t first = 0; first < nearest->count && first < nearest->k; first = end) {
    bool exact;
    end = group_end(nearest, first, &exact);
    bool settled = exact || end - first == 1;
    for (int64_t i = first; i < end; i++) {
      nearest->list[i].error = settled ? 0 : 1;
    }
    open += settled ? 0 : end - first;
    nearest->count = end >= nearest->k ? end : nearest->count;
  }
  return open;
}

void lac_nearest_write(lac_nearest *nearest, int32_t *ids) {
  lac_candidate *list = nearest->list;
  for (int64_t first = 0, end; first < nearest->count; first = end) {
    end = first + 1;
    while (list[first].error > 0 && end < nearest->count && list[end].error > 0) {
      end++;
    }
    if (end - first > 1) { /* groups side by side do not mix: their keys are apart */
      qsort(list + first, (size_t)(end - first), sizeof *list, by_key_and_id);
    }
  }
  for (int64_t i = 0; i < nearest->k && i < nearest->count; i++) {
    ids[i] = list[i].id;
  }
}
