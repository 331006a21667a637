/* Runs a fuzz target over files and folders of files: the seed corpus, or one input that a fuzzer has found. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END) != 0) {
    perror(path);
    return -1;
  }
  long size = ftell(file);
  rewind(file);
  /* A block of exactly that size, so that a sanitizer sees the first byte read beyond it. */
  uint8_t *data = malloc(size > 0 ? (size_t)size : 1);
  if (size < 0 || !data || fread(data, 1, (size_t)size, file) != (size_t)size) {
    perror(path);
    free(data);
    fclose(file);
    return -1;
  }
  fclose(file);
  fprintf(stderr, "%s\n", path);
  LLVMFuzzerTestOneInput(data, (size_t)size);
  free(data);
  return 1;
}

static int replay_folder(const char *path, DIR *folder) {
  int count = 0;
  for (struct dirent *entry; (entry = readdir(folder));) {
    char name[4096];
    struct stat about;
    snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
    if (stat(name, &about) == 0 && S_ISREG(about.st_mode)) {
      int done = replay_file(name);
      if (done < 0) {
        return -1;
      }
      count += done;
    }
  }
  return count;
}

int main(int argc, char **argv) {
  int count = 0;
  for (int i = 1; i < argc; i++) {
    DIR *folder = opendir(argv[i]);
    int done = folder ? replay_folder(argv[i], folder) : replay_file(argv[i]);
    if (folder) {
      closedir(folder);
    }
    if (done < 0) {
      return 1;
    }
    count += done;
  }
  printf("%d inputs\n", count);
  return count > 0 ? 0 : 1; /* an empty corpus tests nothing */
}
