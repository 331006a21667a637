#include "store/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"
#include "laconic/output.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensors are written as they are in memory");

enum { LENGTH_BYTES = 8, HEADER_LIMIT = 100 * 1000 * 1000, ALIGNMENT = 8 };

static const char metadata_key[] = "__metadata__";

static const struct {
  const char *name;
  size_t bytes;
} types[LAC_TENSOR_TYPES] = {
#define LAC_TENSOR_ROW(symbol, name, bytes) {name, bytes},
    LAC_TENSOR_TYPE_TABLE(LAC_TENSOR_ROW)
#undef LAC_TENSOR_ROW
};

/* A tensor of an opened file. */
typedef struct lac_entry {
  lac_tensor tensor;
  uint64_t begin, end; /* in the data, from the end of the header */
} lac_entry;

struct lac_tensors {
  char *path;
  int descriptor;     /* -1: in memory */
  const char *memory; /* NULL: in a file */
  json_t *header;     /* owns the names and texts */
  uint64_t start;     /* of the data in the file */
  uint64_t bytes;     /* of data */
  lac_entry *entries;
  int64_t count;
  lac_text_pair *pairs; /* borrowed from header */
  int64_t pair_count;
};

const char *lac_tensor_type_name(lac_tensor_type type) {
  return types[type].name;
}

size_t lac_tensor_type_size(lac_tensor_type type) {
  return types[type].bytes;
}

/* False when a size is negative or the product leaves int64_t. */
static bool count_bytes(const lac_tensor *tensor, int64_t *elements, int64_t *bytes) {
  *elements = 1;
  *bytes = 0;
  bool empty = false;
  for (int i = 0; i < tensor->axes; i++) {
    if (tensor->shape[i] < 0) {
      return false;
    }
    empty = empty || tensor->shape[i] == 0; /* {2^60, 2^60, 0} has no elements */
  }
  for (int i = 0; i < tensor->axes && !empty; i++) {
    if (__builtin_mul_overflow(*elements, tensor->shape[i], elements)) {
      return false;
    }
  }
  *elements = empty ? 0 : *elements;
  return !__builtin_mul_overflow(*elements, (int64_t)types[tensor->type].bytes, bytes);
}

int64_t lac_tensor_elements(const lac_tensor *tensor) {
  int64_t elements, bytes;
  (void)count_bytes(tensor, &elements, &bytes);
  return elements;
}

size_t lac_tensor_bytes(const lac_tensor *tensor) {
  int64_t elements, bytes;
  (void)count_bytes(tensor, &elements, &bytes);
  return (size_t)bytes;
}

/* ---- Reading ---- */

static lac_status read_at(lac_context *context, const lac_tensors *tensors, uint64_t offset, void *out, size_t bytes) {
  char *at = out;
  if (tensors->memory) {
    memcpy(out, tensors->memory + offset, bytes); /* what is asked for has been checked against the size */
    return LAC_OK;
  }
  while (bytes) {
    ssize_t got = pread(tensors->descriptor, at, bytes, (off_t)offset);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      return lac_fail(context, LAC_E_IO, "%s: reading failed at offset %" PRIu64 ": %s", tensors->path, offset,
                      got < 0 ? strerror(errno) : "the file has been cut");
    }
    at += got;
    offset += (uint64_t)got;
    bytes -= (size_t)got;
  }
  return LAC_OK;
}

static lac_status damaged(lac_context *context, const lac_tensors *tensors, const char *name, const char *found,
                          const char *expected) {
  return lac_fail(context, LAC_E_INPUT, "%s: tensor '%.100s': found %s, expected %s", tensors->path, name, found,
                  expected);
}

static lac_status parse_type(lac_context *context, const lac_tensors *tensors, const char *name, const json_t *value,
                             lac_tensor_type *type) {
  const char *text = json_string_value(value);
  if (!text) {
    return damaged(context, tensors, name, "no text as dtype", "one such as F32");
  }
  for (int i = 0; i < LAC_TENSOR_TYPES; i++) {
    if (strcmp(text, types[i].name) == 0) {
      *type = (lac_tensor_type)i;
      return LAC_OK;
    }
  }
  return lac_fail(context, LAC_E_INPUT, "%s: tensor '%.100s': found dtype '%.20s', expected one such as F32",
                  tensors->path, name, text);
}

/* A whole number from 0 up. */
static bool parse_count(const json_t *value, int64_t *count) {
  *count = json_is_integer(value) ? (int64_t)json_integer_value(value) : -1;
  return *count >= 0;
}

static lac_status parse_shape(lac_context *context, const lac_tensors *tensors, const char *name, const json_t *value,
                              lac_tensor *tensor) {
  if (!json_is_array(value)) {
    return damaged(context, tensors, name, "no list as shape", "a list of sizes");
  }
  if (json_array_size(value) > LAC_TENSOR_AXES) {
    return lac_fail(context, LAC_E_INPUT, "%s: tensor '%.100s': found %zu axes, expected at most %d", tensors->path,
                    name, json_array_size(value), (int)LAC_TENSOR_AXES);
  }
  tensor->axes = (int)json_array_size(value);
  for (int i = 0; i < tensor->axes; i++) {
    if (!parse_count(json_array_get(value, (size_t)i), &tensor->shape[i])) {
      return damaged(context, tensors, name, "a shape that is no list of whole numbers", "sizes from 0 up");
    }
  }
  return LAC_OK;
}

static lac_status parse_offsets(lac_context *context, const lac_tensors *tensors, const char *name, const json_t *value,
                                lac_entry *entry) {
  int64_t begin, end;
  if (!json_is_array(value) || json_array_size(value) != 2 || !parse_count(json_array_get(value, 0), &begin) ||
      !parse_count(json_array_get(value, 1), &end)) {
    return damaged(context, tensors, name, "data_offsets that are not two whole numbers", "[begin, end]");
  }
  if (end < begin || (uint64_t)end > tensors->bytes) {
    return lac_fail(context, LAC_E_INPUT,
                    "%s: tensor '%.100s': found data_offsets [%" PRId64 ", %" PRId64
                    "], expected them within the %" PRIu64 " bytes of data",
                    tensors->path, name, begin, end, tensors->bytes);
  }
  entry->begin = (uint64_t)begin;
  entry->end = (uint64_t)end;
  return LAC_OK;
}

static lac_status parse_entry(lac_context *context, const lac_tensors *tensors, const char *name, const json_t *value,
                              lac_entry *entry) {
  if (!json_is_object(value) || json_object_size(value) != 3) {
    return damaged(context, tensors, name, "no object of three members", "dtype, shape and data_offsets");
  }
  lac_tensor *tensor = &entry->tensor;
  tensor->name = name;
  LAC_TRY(parse_type(context, tensors, name, json_object_get(value, "dtype"), &tensor->type));
  LAC_TRY(parse_shape(context, tensors, name, json_object_get(value, "shape"), tensor));
  LAC_TRY(parse_offsets(context, tensors, name, json_object_get(value, "data_offsets"), entry));
  int64_t elements, bytes;
  if (!count_bytes(tensor, &elements, &bytes)) {
    return damaged(context, tensors, name, "a shape of more than 2^63 bytes", "one that fits the data");
  }
  if ((uint64_t)bytes != entry->end - entry->begin) {
    return lac_fail(context, LAC_E_INPUT,
                    "%s: tensor '%.100s': found %" PRIu64 " bytes of data, expected %" PRId64
                    " for its shape and dtype",
                    tensors->path, name, entry->end - entry->begin, bytes);
  }
  return LAC_OK;
}

static lac_status parse_metadata(lac_context *context, lac_tensors *tensors, json_t *value) {
  if (!json_is_object(value)) {
    return lac_fail(context, LAC_E_INPUT, "%s: found __metadata__ that is no object, expected texts by name",
                    tensors->path);
  }
  LAC_TRY(LAC_NEW(context, (int64_t)json_object_size(value), &tensors->pairs));
  const char *key;
  json_t *text;
  json_object_foreach(value, key, text) {
    if (!json_is_string(text)) {
      return lac_fail(context, LAC_E_INPUT, "%s: __metadata__ '%.100s': found no text, expected one", tensors->path,
                      key);
    }
    tensors->pairs[tensors->pair_count++] = (lac_text_pair){key, json_string_value(text)};
  }
  return LAC_OK;
}

static int by_position(const void *a, const void *b) {
  const lac_entry *x = a, *y = b;
  if (x->begin != y->begin) {
    return x->begin < y->begin ? -1 : 1;
  }
  if (x->end != y->end) {
    return x->end < y->end ? -1 : 1; /* the empty ones first */
  }
  return strcmp(x->tensor.name, y->tensor.name);
}

/* The data must be covered without overlap or hole. */
static lac_status check_cover(lac_context *context, const lac_tensors *tensors) {
  uint64_t next = 0;
  for (int64_t i = 0; i < tensors->count; i++) {
    const lac_entry *entry = &tensors->entries[i];
    if (entry->begin != next) {
      return lac_fail(context, LAC_E_INPUT,
                      "%s: tensor '%.100s': found %s before it, expected its data to begin at %" PRIu64, tensors->path,
                      entry->tensor.name, entry->begin < next ? "an overlap" : "a hole", next);
    }
    next = entry->end;
  }
  return next == tensors->bytes
             ? LAC_OK
             : lac_fail(context, LAC_E_INPUT, "%s: found %" PRIu64 " bytes after the last tensor, expected none",
                        tensors->path, tensors->bytes - next);
}

static lac_status parse_header(lac_context *context, lac_tensors *tensors) {
  LAC_TRY(LAC_NEW(context, (int64_t)json_object_size(tensors->header), &tensors->entries));
  const char *name;
  json_t *value;
  json_object_foreach(tensors->header, name, value) {
    if (strcmp(name, metadata_key) == 0) {
      LAC_TRY(parse_metadata(context, tensors, value));
    } else {
      LAC_TRY(parse_entry(context, tensors, name, value, &tensors->entries[tensors->count]));
      tensors->count++;
    }
  }
  qsort(tensors->entries, (size_t)tensors->count, sizeof *tensors->entries, by_position);
  return check_cover(context, tensors);
}

static uint64_t little_endian(const unsigned char bytes[LENGTH_BYTES]) {
  uint64_t value = 0;
  for (int i = LENGTH_BYTES - 1; i >= 0; i--) {
    value = value << 8 | bytes[i];
  }
  return value;
}

static lac_status load_json(lac_context *context, lac_tensors *tensors, char *text, size_t bytes) {
  LAC_TRY(read_at(context, tensors, LENGTH_BYTES, text, bytes));
  json_error_t error;
  if (bytes == 0 || text[0] != '{') {
    return lac_fail(context, LAC_E_INPUT, "%s: offset %d: found no '{', expected a JSON header", tensors->path,
                    (int)LENGTH_BYTES);
  }
  tensors->header = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
  if (!tensors->header) {
    lac_status status = json_error_code(&error) == json_error_out_of_memory ? LAC_E_MEMORY : LAC_E_INPUT;
    return lac_fail(context, status, "%s: offset %d: the JSON header is damaged: %s", tensors->path,
                    LENGTH_BYTES + error.position, error.text);
  }
  return LAC_OK;
}

static lac_status load_header(lac_context *context, lac_tensors *tensors, uint64_t file_bytes) {
  unsigned char length[LENGTH_BYTES];
  if (file_bytes < LENGTH_BYTES) {
    return lac_fail(context, LAC_E_INPUT, "%s: found %" PRIu64 " bytes, expected a safetensors file (8 or more)",
                    tensors->path, file_bytes);
  }
  LAC_TRY(read_at(context, tensors, 0, length, LENGTH_BYTES));
  uint64_t bytes = little_endian(length);
  if (bytes > HEADER_LIMIT || bytes > file_bytes - LENGTH_BYTES) {
    uint64_t limit = file_bytes - LENGTH_BYTES < HEADER_LIMIT ? file_bytes - LENGTH_BYTES : HEADER_LIMIT;
    return lac_fail(context, LAC_E_INPUT,
                    "%s: offset 0: found a header of %" PRIu64
                    " bytes, expected a safetensors file with at most %" PRIu64,
                    tensors->path, bytes, limit);
  }
  tensors->start = LENGTH_BYTES + bytes;
  tensors->bytes = file_bytes - tensors->start;
  char *text;
  LAC_TRY(LAC_NEW(context, (int64_t)bytes, &text));
  lac_status status = load_json(context, tensors, text, (size_t)bytes);
  lac_free(text);
  LAC_TRY(status);
  return parse_header(context, tensors);
}

static lac_status open_file(lac_context *context, lac_tensors *tensors) {
  struct stat about;
  tensors->descriptor = open(tensors->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not hold us up */
  if (tensors->descriptor < 0 || fstat(tensors->descriptor, &about) != 0) {
    return lac_fail(context, LAC_E_INPUT, "%s: cannot be read: %s", tensors->path, strerror(errno));
  }
  if (!S_ISREG(about.st_mode)) {
    return lac_fail(context, LAC_E_INPUT, "%s: is no regular file, expected a safetensors file", tensors->path);
  }
  return load_header(context, tensors, (uint64_t)about.st_size);
}

/* Opens the file, or the memory when that is not NULL. */
static lac_status open_either(lac_context *context, const char *path, const void *memory, size_t size,
                              lac_tensors **tensors) {
  *tensors = NULL;
  lac_tensors *made;
  LAC_TRY(LAC_NEW(context, 1, &made));
  made->descriptor = -1;
  made->memory = memory;
  lac_status status = lac_copy_text(context, path, &made->path);
  if (!status) {
    status = memory ? load_header(context, made, size) : open_file(context, made);
  }
  if (status) {
    lac_tensors_close(&made);
    return status;
  }
  *tensors = made;
  return LAC_OK;
}

lac_status lac_tensors_open(lac_context *context, const char *path, lac_tensors **tensors) {
  return open_either(context, path, NULL, 0, tensors);
}

lac_status lac_tensors_open_memory(lac_context *context, const char *name, const void *bytes, size_t size,
                                   lac_tensors **tensors) {
  return open_either(context, name, bytes, size, tensors);
}

void lac_tensors_close(lac_tensors **tensors) {
  if (!*tensors) {
    return;
  }
  if ((*tensors)->descriptor >= 0) {
    close((*tensors)->descriptor);
  }
  json_decref((*tensors)->header);
  lac_free((*tensors)->entries);
  lac_free((*tensors)->pairs);
  free((*tensors)->path);
  lac_free(*tensors);
  *tensors = NULL;
}

const char *lac_tensors_path(const lac_tensors *tensors) {
  return tensors->path;
}

int64_t lac_tensors_count(const lac_tensors *tensors) {
  return tensors->count;
}

const lac_tensor *lac_tensors_at(const lac_tensors *tensors, int64_t index) {
  return &tensors->entries[index].tensor;
}

const lac_tensor *lac_tensors_find(const lac_tensors *tensors, const char *name) {
  for (int64_t i = 0; i < tensors->count; i++) {
    if (strcmp(tensors->entries[i].tensor.name, name) == 0) {
      return &tensors->entries[i].tensor;
    }
  }
  return NULL;
}

int64_t lac_tensors_pair_count(const lac_tensors *tensors) {
  return tensors->pair_count;
}

const lac_text_pair *lac_tensors_pair_at(const lac_tensors *tensors, int64_t index) {
  return &tensors->pairs[index];
}

const char *lac_tensors_meta(const lac_tensors *tensors, const char *key) {
  for (int64_t i = 0; i < tensors->pair_count; i++) {
    if (strcmp(tensors->pairs[i].key, key) == 0) {
      return tensors->pairs[i].value;
    }
  }
  return NULL;
}

lac_status lac_tensors_read(lac_context *context, const lac_tensors *tensors, const lac_tensor *tensor, void *out) {
  const lac_entry *entry = (const lac_entry *)tensor; /* its first member */
  return read_at(context, tensors, tensors->start + entry->begin, out, (size_t)(entry->end - entry->begin));
}

/* ---- Writing ---- */

static lac_status no_memory(lac_context *context) {
  return lac_fail(context, LAC_E_MEMORY, "cannot allocate a JSON value");
}

/* Adds value (taken) to object under a key that must be new and UTF-8. */
static lac_status add_member(lac_context *context, const char *path, json_t *object, const char *key, json_t *value) {
  lac_status status = LAC_OK;
  if (!lac_utf8_valid(key, strlen(key))) {
    status = lac_fail(context, LAC_E_USAGE, "%s: a name to write is not UTF-8", path);
  } else if (json_object_get(object, key)) {
    status = lac_fail(context, LAC_E_USAGE, "%s: the name '%.100s' is to be written twice", path, key);
  } else if (!value || json_object_set(object, key, value) != 0) {
    status = no_memory(context);
  }
  json_decref(value);
  return status;
}

static lac_status metadata_json(lac_context *context, const char *path, const lac_text_pair *pairs, int64_t count,
                                json_t *header) {
  json_t *object = json_object();
  LAC_TRY(add_member(context, path, header, metadata_key, object)); /* the header holds it now */
  for (int64_t i = 0; i < count; i++) {
    if (!lac_utf8_valid(pairs[i].value, strlen(pairs[i].value))) {
      return lac_fail(context, LAC_E_USAGE, "%s: the text of '%.100s' is not UTF-8", path, pairs[i].key);
    }
    LAC_TRY(add_member(context, path, object, pairs[i].key, json_string(pairs[i].value)));
  }
  return LAC_OK;
}

static lac_status tensor_json(lac_context *context, const char *path, const lac_tensor *tensor, uint64_t *offset,
                              json_t *header) {
  int64_t elements, bytes;
  if (strcmp(tensor->name, metadata_key) == 0) {
    return lac_fail(context, LAC_E_USAGE, "%s: a tensor cannot have the name %s", path, metadata_key);
  }
  if (tensor->axes < 0 || tensor->axes > LAC_TENSOR_AXES || !count_bytes(tensor, &elements, &bytes)) {
    return lac_fail(context, LAC_E_USAGE, "%s: the shape of '%.100s' cannot be written", path, tensor->name);
  }
  json_t *shape = json_array();
  for (int i = 0; i < tensor->axes; i++) {
    if (json_array_append_new(shape, json_integer(tensor->shape[i])) != 0) {
      json_decref(shape);
      return no_memory(context);
    }
  }
  uint64_t begin = *offset;
  *offset += (uint64_t)bytes;
  json_t *value = json_pack("{s:s, s:o, s:[I, I]}", "dtype", types[tensor->type].name, "shape", shape, "data_offsets",
                            (json_int_t)begin, (json_int_t)*offset);
  return add_member(context, path, header, tensor->name, value);
}

static lac_status build_header(lac_context *context, const char *path, const lac_tensor *const *order, int64_t count,
                               const lac_text_pair *pairs, int64_t pair_count, json_t *header) {
  if (pair_count) {
    LAC_TRY(metadata_json(context, path, pairs, pair_count, header));
  }
  uint64_t offset = 0;
  for (int64_t i = 0; i < count; i++) {
    LAC_TRY(tensor_json(context, path, order[i], &offset, header));
  }
  return LAC_OK;
}

/* Wider elements first, otherwise as given. */
static void order_by_width(const lac_tensor *tensors, int64_t count, const lac_tensor **order) {
  int64_t next = 0;
  for (size_t width = 8; width; width /= 2) {
    for (int64_t i = 0; i < count; i++) {
      if (types[tensors[i].type].bytes == width) {
        order[next++] = &tensors[i];
      }
    }
  }
}

static lac_status write_all(lac_context *context, lac_output *output, const char *text, const lac_tensor *const *order,
                            int64_t count) {
  static const char blanks[] = "        ";
  size_t bytes = strlen(text);
  size_t padding = (ALIGNMENT - bytes % ALIGNMENT) % ALIGNMENT;
  uint64_t length = bytes + padding;
  if (length > HEADER_LIMIT) {
    return lac_fail(context, LAC_E_USAGE, "%s: the header would have %" PRIu64 " bytes, at most %d are allowed",
                    output->path, length, (int)HEADER_LIMIT);
  }
  LAC_TRY(lac_output_write(context, output, &length, sizeof length));
  LAC_TRY(lac_output_write(context, output, text, bytes));
  LAC_TRY(lac_output_write(context, output, blanks, padding));
  for (int64_t i = 0; i < count; i++) {
    LAC_TRY(lac_output_write(context, output, order[i]->data, lac_tensor_bytes(order[i])));
  }
  return LAC_OK;
}

static lac_status write_file(lac_context *context, const char *path, const char *text, const lac_tensor *const *order,
                             int64_t count) {
  lac_output output;
  LAC_TRY(lac_output_open(context, path, &output));
  lac_status status = write_all(context, &output, text, order, count);
  if (status) {
    lac_output_discard(&output);
    return status;
  }
  return lac_output_commit(context, &output);
}

lac_status lac_tensors_write(lac_context *context, const char *path, const lac_tensor *tensors, int64_t count,
                             const lac_text_pair *pairs, int64_t pair_count) {
  const lac_tensor **order;
  LAC_TRY(LAC_NEW(context, count, &order));
  order_by_width(tensors, count, order);
  json_t *header = json_object();
  char *text = NULL;
  lac_status status =
      header ? build_header(context, path, order, count, pairs, pair_count, header) : no_memory(context);
  if (!status) {
    text = json_dumps(header, JSON_COMPACT);
    status = text ? write_file(context, path, text, order, count) : no_memory(context);
  }
  free(text);
  json_decref(header);
  lac_free(order);
  return status;
}
