/* Files of pictures, written as their formats are published. */
#ifndef LACONIC_TESTS_DATA_PICTURE_FILES_H
#define LACONIC_TESTS_DATA_PICTURE_FILES_H

#include "support.h"

static inline void put_file(const char *path, const char *mode, const void *bytes, size_t size) {
  FILE *file = fopen(path, mode);
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  assert_int_equal(fclose(file), 0);
}

/* Unsigned bytes as IDX. */
static inline void put_idx(const char *path, int axes, const int64_t *shape, const uint8_t *values) {
  uint8_t head[36] = {0, 0, 8, (uint8_t)axes};
  size_t size = 1;
  for (int i = 0; i < axes; i++) {
    head[4 + 4 * i + 1] = (uint8_t)(shape[i] >> 16);
    head[4 + 4 * i + 2] = (uint8_t)(shape[i] >> 8);
    head[4 + 4 * i + 3] = (uint8_t)shape[i];
    size *= (size_t)shape[i];
  }
  put_file(path, "wb", head, 4 + 4 * (size_t)axes);
  put_file(path, "ab", values, size);
}

/* npy; type as numpy writes it, such as "|u1", shape as Python does, such as "(3,)". */
static inline void put_npy(const char *path, const char *type, const char *shape, const void *values, size_t size) {
  char text[160], line[117 + 1]; /* 128 bytes are written */
  snprintf(line, sizeof line, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", type, shape);
  snprintf(text, sizeof text, "\x93NUMPY%c%c%c%c%-117s\n", 1, '0', 118, '0', line);
  text[7] = text[9] = 0;
  put_file(path, "wb", text, 128);
  put_file(path, "ab", values, size);
}

#endif
