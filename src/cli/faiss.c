#include "cli/faiss.h"

#include <stdio.h>
#include <string.h>

#include "cli/data_options.h"

/* Field by field as FAISS writes them, little-endian without padding. Index: mark, d (i32), ntotal (i64), two unused
 * (i64), is_trained (u8), metric (i32), from metric 2 on its argument (f32). Binary index: mark, d, code_size (i32),
 * ntotal (i64), is_trained (u8), metric (i32). A pre-transform goes on with the number of transforms (i32), each of
 * them, then the index behind them. */

typedef struct index_mark {
  const char *mark, *what;
} index_mark;

static const index_mark float_marks[] = {
    {"IxPT", "IndexPreTransform"},
    {"IxHe", "IndexLSH"},
    {"IxF2", "IndexFlatL2"},
    {"IxFI", "IndexFlatIP"},
    {"IxFl", "IndexFlat"},
    {"IxPq", "IndexPQ"},
    {"IxSQ", "IndexScalarQuantizer"},
    {"IwFl", "IndexIVFFlat"},
    {"IwPQ", "IndexIVFPQ"},
    {"IwSq", "IndexIVFScalarQuantizer"},
    {"IHNf", "IndexHNSWFlat"},
    {"IHNp", "IndexHNSWPQ"},
    {"IHNs", "IndexHNSWSQ"},
    {"IxMp", "IndexIDMap"},
    {"IxM2", "IndexIDMap2"},
    {"IxRF", "IndexRefine"},
};
static const index_mark binary_marks[] = {
    {"IBxF", "IndexBinaryFlat"},  {"IBwF", "IndexBinaryIVF"},    {"IBHf", "IndexBinaryHNSW"},
    {"IBMp", "IndexBinaryIDMap"}, {"IBM2", "IndexBinaryIDMap2"}, {"IBFf", "IndexBinaryFromFloat"},
};

enum {
  FLOAT_MARKS = sizeof float_marks / sizeof *float_marks,
  BINARY_MARKS = sizeof binary_marks / sizeof *binary_marks
};

static const char *name_of(const char *fourcc, const index_mark *marks, int count) {
  for (int i = 0; i < count; i++) {
    if (memcmp(marks[i].mark, fourcc, 4) == 0) {
      return marks[i].what;
    }
  }
  return NULL;
}

bool lac_faiss_recognise(const char *path) {
  char fourcc[4];
  FILE *file = lac_open_regular(path);
  bool known = file && fread(fourcc, 1, 4, file) == 4 &&
               (name_of(fourcc, float_marks, FLOAT_MARKS) || name_of(fourcc, binary_marks, BINARY_MARKS));
  if (file) {
    fclose(file);
  }
  return known;
}

typedef struct byte_reader {
  FILE *file;
  bool whole; /* false once something was missing */
} byte_reader;

static void read_bytes(byte_reader *reader, void *out, size_t bytes) {
  if (!reader->whole || fread(out, 1, bytes, reader->file) != bytes) {
    memset(out, 0, bytes);
    reader->whole = false;
  }
}

static int64_t read_integer(byte_reader *reader, size_t bytes) {
  unsigned char raw[8];
  read_bytes(reader, raw, bytes);
  uint64_t value = 0;
  for (size_t i = bytes; i-- > 0;) {
    value = value << 8 | raw[i];
  }
  return bytes == 4 ? (int32_t)value : (int64_t)value;
}

static void skip(byte_reader *reader, int64_t bytes) {
  if (bytes < 0 || fseeko(reader->file, bytes, SEEK_CUR) != 0) {
    reader->whole = false;
  }
}

static void read_float_header(byte_reader *reader, lac_faiss_about *about) {
  about->columns = read_integer(reader, 4);
  about->rows = read_integer(reader, 8);
  skip(reader, 16);
  about->trained = read_integer(reader, 1) != 0;
  if (read_integer(reader, 4) > 1) {
    skip(reader, 4);
  }
}

/* A linear transform: have_bias (u8), A and b as length (u64) and floats, d_in (i32), d_out (i32), is_trained (u8). */
static bool skip_linear(byte_reader *reader, int64_t *width) {
  char fourcc[4];
  read_bytes(reader, fourcc, 4);
  if (memcmp(fourcc, "LTra", 4) != 0 && memcmp(fourcc, "rrot", 4) != 0) {
    return false;
  }
  skip(reader, 1);
  for (int i = 0; i < 2; i++) {
    int64_t length = read_integer(reader, 8);
    skip(reader, length < 0 || length > INT64_MAX / 8 ? -1 : 4 * length);
  }
  skip(reader, 4);
  *width = read_integer(reader, 4);
  skip(reader, 1);
  return reader->whole;
}

static void describe_chain(byte_reader *reader, lac_faiss_about *about) {
  int64_t transforms = read_integer(reader, 4), width = about->columns;
  for (int64_t i = 0; i < transforms; i++) {
    if (!skip_linear(reader, &width)) {
      return;
    }
  }
  char fourcc[4];
  read_bytes(reader, fourcc, 4);
  const char *behind = name_of(fourcc, float_marks, FLOAT_MARKS);
  if (!reader->whole || !behind) {
    return;
  }
  lac_faiss_about inner = {0};
  read_float_header(reader, &inner);
  if (memcmp(fourcc, "IxHe", 4) == 0) {
    about->bits = read_integer(reader, 4);
  }
  snprintf(about->what, sizeof about->what, "linear transform of %lld to %lld columns, then %s",
           (long long)about->columns, (long long)width, behind);
}

lac_status lac_faiss_describe(lac_session *session, const char *path, lac_faiss_about *about) {
  *about = (lac_faiss_about){0};
  byte_reader reader = {lac_open_regular(path), true};
  if (!reader.file) {
    return lac_fail(session->context, LAC_E_INPUT, "%s: cannot be opened any more", path);
  }
  read_bytes(&reader, about->index, 4);
  const char *name = name_of(about->index, float_marks, FLOAT_MARKS);
  about->binary = !name;
  if (about->binary) {
    name = name_of(about->index, binary_marks, BINARY_MARKS);
    about->columns = read_integer(&reader, 4);
    about->bits = about->columns;
    skip(&reader, 4);
    about->rows = read_integer(&reader, 8);
    about->trained = read_integer(&reader, 1) != 0;
  } else {
    read_float_header(&reader, about);
  }
  snprintf(about->what, sizeof about->what, "%s", name);
  bool whole = reader.whole;
  if (whole && memcmp(about->index, "IxPT", 4) == 0) {
    describe_chain(&reader, about);
    whole = reader.whole;
  } else if (whole && memcmp(about->index, "IxHe", 4) == 0) {
    about->bits = read_integer(&reader, 4);
    whole = reader.whole;
  }
  long long at = ftello(reader.file);
  fclose(reader.file);
  if (!whole) {
    return lac_fail(session->context, LAC_E_INPUT, "%s: ends at offset %lld, within the header of a FAISS index", path,
                    at);
  }
  if (about->rows < 0 || about->columns < 1) {
    return lac_fail(session->context, LAC_E_INPUT,
                    "%s: offset 4: found %lld rows of %lld columns in the header of a FAISS index", path,
                    (long long)about->rows, (long long)about->columns);
  }
  return LAC_OK;
}
