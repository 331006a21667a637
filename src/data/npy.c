/* npy: a magic number, the length of a header, the header as the text of a Python dictionary, the values. Versions 1 to
 * 3, C and Fortran order, either byte order. Source: NEP 1 and the reference of numpy.lib.format. */
#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "data/format.h"

enum { NPY_MAGIC = 6 };

static bool npy_probe(const uint8_t *bytes, size_t size) {
  return size >= NPY_MAGIC && memcmp(bytes, "\x93NUMPY", NPY_MAGIC) == 0;
}

/* Where the parser stands in the header, and what it found. */
typedef struct header {
  const char *text, *at, *end;
  size_t offset; /* of text in the file */
  bool has_descr, has_order, has_shape;
  char descr[16];
  bool fortran;
  int axes;
  int64_t shape[LAC_AXES];
} header;

static void skip_space(header *self) {
  while (self->at < self->end && isspace((unsigned char)*self->at)) {
    self->at++;
  }
}

/* Takes a character if it is next. */
static bool take(header *self, char wanted) {
  skip_space(self);
  if (self->at < self->end && *self->at == wanted) {
    self->at++;
    return true;
  }
  return false;
}

/* Takes a word such as True. */
static bool take_word(header *self, const char *word) {
  skip_space(self);
  size_t length = strlen(word);
  if ((size_t)(self->end - self->at) >= length && memcmp(self->at, word, length) == 0) {
    self->at += length;
    return true;
  }
  return false;
}

/* A text in single or double quotes without escapes; cut to fit. */
static bool take_text(header *self, char *text, size_t limit) {
  skip_space(self);
  if (self->at == self->end || (*self->at != '\'' && *self->at != '"')) {
    return false;
  }
  char quote = *self->at++;
  size_t used = 0;
  while (self->at < self->end && *self->at != quote) {
    if (used + 1 < limit) {
      text[used++] = *self->at;
    }
    self->at++;
  }
  text[used] = 0;
  return take(self, quote);
}

static bool take_number(header *self, int64_t *number) {
  skip_space(self);
  const char *start = self->at;
  *number = 0;
  while (self->at < self->end && isdigit((unsigned char)*self->at)) {
    if (__builtin_mul_overflow(*number, 10, number) || __builtin_add_overflow(*number, *self->at - '0', number)) {
      return false;
    }
    self->at++;
  }
  bool found = self->at > start;
  if (found && self->at < self->end && *self->at == 'L') { /* a long integer, as Python 2 wrote it */
    self->at++;
  }
  return found;
}

/* (60000, 784), (10,), () */
static bool take_shape(header *self) {
  if (!take(self, '(')) {
    return false;
  }
  self->axes = 0;
  while (!take(self, ')')) {
    if (self->axes == LAC_AXES || !take_number(self, &self->shape[self->axes])) {
      return false;
    }
    self->axes++;
    if (!take(self, ',')) {
      return take(self, ')');
    }
  }
  return true;
}

/* One key and its value; the status only says whether it could be read. */
static bool take_entry(header *self) {
  char key[16];
  if (!take_text(self, key, sizeof key) || !take(self, ':')) {
    return false;
  }
  if (strcmp(key, "descr") == 0) {
    self->has_descr = true;
    return take_text(self, self->descr, sizeof self->descr);
  }
  if (strcmp(key, "fortran_order") == 0) {
    self->has_order = true;
    self->fortran = take_word(self, "True");
    return self->fortran || take_word(self, "False");
  }
  self->has_shape = strcmp(key, "shape") == 0;
  return self->has_shape && take_shape(self);
}

static bool take_header(header *self) {
  if (!take(self, '{')) {
    return false;
  }
  while (!take(self, '}')) {
    if (!take_entry(self)) {
      return false;
    }
    if (!take(self, ',')) {
      if (!take(self, '}')) {
        return false;
      }
      break;
    }
  }
  skip_space(self);
  return self->at == self->end && self->has_descr && self->has_order && self->has_shape;
}

static lac_status npy_type(lac_context *context, const header *head, lac_dataset *dataset) {
  static const struct {
    const char *code;
    lac_type type;
  } codes[] = {{"u1", LAC_U8},  {"i1", LAC_I8},  {"i2", LAC_I16}, {"i4", LAC_I32},
               {"i8", LAC_I64}, {"f2", LAC_F16}, {"f4", LAC_F32}, {"f8", LAC_F64}};
  const char *descr = head->descr;
  bool ordered = *descr && strchr("<>=|", *descr);
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
    if (strcmp(descr + ordered, codes[i].code) == 0) {
      dataset->type = codes[i].type;
      dataset->swapped = *descr == '>';
      return LAC_OK;
    }
  }
  return lac_fail(context, LAC_E_INPUT,
                  "%s: offset %zu: found elements of type '%s', expected u1, i1, i2, i4, i8, f2, f4 or f8",
                  dataset->storage->path, head->offset, descr);
}

/* Where each column of a Fortran-order array stands: the first axis is the fastest in the file, the last among the
 * columns here. */
static lac_status fortran_columns(lac_context *context, lac_dataset *dataset) {
  int64_t *offsets, size = (int64_t)lac_type_size(dataset->type);
  LAC_TRY(LAC_NEW(context, dataset->columns, &offsets));
  for (int64_t column = 0; column < dataset->columns; column++) {
    int64_t rest = column, offset = 0;
    for (int axis = dataset->axes - 1; axis > 0; axis--) {
      int64_t stride = size;
      for (int before = 0; before < axis; before++) {
        stride *= dataset->shape[before];
      }
      offset += rest % dataset->shape[axis] * stride;
      rest /= dataset->shape[axis];
    }
    offsets[column] = offset;
  }
  dataset->storage->column_offsets = offsets;
  dataset->row_stride = size;
  return LAC_OK;
}

/* The header's place: version 1 has a length of 2 bytes, versions 2 and 3 have 4. */
static lac_status find_header(lac_context *context, const lac_storage *storage, header *head) {
  const uint8_t *bytes = storage->bytes;
  if (!npy_probe(bytes, storage->size)) {
    return lac_fail(context, LAC_E_INPUT, "%s: offset 0: found no magic number 93 'NUMPY', as npy has", storage->path);
  }
  LAC_TRY(lac_storage_need(context, storage, NPY_MAGIC + 4, "the version and the header's length"));
  uint8_t version = bytes[NPY_MAGIC];
  if (version < 1 || version > 3 || bytes[NPY_MAGIC + 1] != 0) {
    return lac_fail(context, LAC_E_INPUT, "%s: offset %d: found npy version %d.%d, expected 1.0, 2.0 or 3.0",
                    storage->path, NPY_MAGIC, version, bytes[NPY_MAGIC + 1]);
  }
  size_t length = bytes[8] | (size_t)bytes[9] << 8;
  head->offset = NPY_MAGIC + 4;
  if (version > 1) {
    LAC_TRY(lac_storage_need(context, storage, NPY_MAGIC + 6, "the header's length"));
    length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    head->offset += 2;
  }
  LAC_TRY(lac_storage_need(context, storage, head->offset + length, "the header"));
  head->text = head->at = (const char *)bytes + head->offset;
  head->end = head->text + length;
  return LAC_OK;
}

static lac_status npy_open(lac_context *context, lac_dataset *dataset) {
  const lac_storage *storage = dataset->storage;
  header head = {0};
  LAC_TRY(find_header(context, storage, &head));
  if (!take_header(&head)) {
    return lac_fail(context, LAC_E_INPUT,
                    "%s: offset %zu: found a header that cannot be read here, expected {'descr': a plain type, "
                    "'fortran_order': True or False, 'shape': at most %d axes}",
                    storage->path, head.offset + (size_t)(head.at - head.text), LAC_AXES);
  }
  int64_t size;
  LAC_TRY(npy_type(context, &head, dataset));
  LAC_TRY(lac_layout_shape(context, dataset, head.offset, head.axes, head.shape, &size));
  LAC_TRY(lac_layout_values(context, dataset, head.offset + (size_t)(head.end - head.text), size));
  return head.fortran && dataset->columns > 1 ? fortran_columns(context, dataset) : LAC_OK;
}

static const char *const npy_suffixes[] = {".npy", NULL};

const lac_format lac_format_npy = {.name = "npy", .suffixes = npy_suffixes, .probe = npy_probe, .open = npy_open};
