#include "laconic/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

static lac_status folder_of(lac_context *context, const char *path, char **folder) {
  const char *slash = strrchr(path, '/');
  if (!slash) {
    return lac_copy_text(context, ".", folder);
  }
  return lac_format_text(context, folder, "%.*s", slash == path ? 1 : (int)(slash - path), path);
}

/* The descriptor of this process that a path names, as /dev/stdout does, or -1. What it leads to may be a file that
 * others go on writing to: it must not be replaced. */
static int descriptor_of(const char *path) {
  static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
  if (strcmp(path, "/dev/stdout") == 0 || strcmp(path, "/dev/stderr") == 0) {
    return strcmp(path, "/dev/stdout") == 0 ? STDOUT_FILENO : STDERR_FILENO;
  }
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
    size_t length = strlen(folders[i]);
    const char *digits = path + length;
    if (strncmp(path, folders[i], length) == 0 && *digits && strlen(digits) < 10 &&
        strspn(digits, "0123456789") == strlen(digits)) {
      return (int)strtol(digits, NULL, 10);
    }
  }
  return -1;
}

/* One step along a symbolic link: *target (malloc'ed) becomes what it says. False when it is none. */
static lac_status follow(lac_context *context, char **target, bool *link) {
  char said[PATH_MAX];
  ssize_t length = readlink(*target, said, sizeof said - 1);
  *link = length > 0;
  if (!*link) {
    return LAC_OK;
  }
  said[length] = 0;
  const char *slash = strrchr(*target, '/');
  char *next;
  LAC_TRY(said[0] == '/' || !slash
              ? lac_copy_text(context, said, &next)
              : lac_format_text(context, &next, "%.*s%s", (int)(slash + 1 - *target), *target, said));
  free(*target);
  *target = next;
  return LAC_OK;
}

/* The file that `path` leads to, so that a symbolic link stays one, whether there is anything at its end or not. */
static lac_status resolve(lac_context *context, const char *path, char **resolved) {
  enum { MOST_LINKS = 40 };
  *resolved = realpath(path, NULL);
  if (*resolved) {
    return LAC_OK;
  }
  LAC_TRY(lac_copy_text(context, path, resolved));
  bool link = true;
  for (int i = 0; link && i < MOST_LINKS; i++) {
    lac_status status = follow(context, resolved, &link);
    if (status) {
      free(*resolved);
      *resolved = NULL;
      return status;
    }
  }
  return LAC_OK;
}

lac_status lac_output_check(lac_context *context, const char *path) {
  struct stat about;
  if (!*path) {
    return lac_fail(context, LAC_E_OUTPUT, "the output has an empty name");
  }
  int own = descriptor_of(path);
  if (own >= 0) {
    int flags = fcntl(own, F_GETFL);
    return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY
               ? LAC_OK
               : lac_fail(context, LAC_E_OUTPUT, "%s: cannot be written: %s", path, strerror(EBADF));
  }
  if (stat(path, &about) == 0) {
    if (S_ISDIR(about.st_mode)) {
      return lac_fail(context, LAC_E_OUTPUT, "%s: is a folder, expected a file name to write to", path);
    }
    if (access(path, W_OK) != 0) {
      return lac_fail(context, LAC_E_OUTPUT, "%s: cannot be written: %s", path, strerror(errno));
    }
    if (!S_ISREG(about.st_mode)) {
      return LAC_OK;
    }
  }
  char *folder, *target;
  LAC_TRY(resolve(context, path, &target));
  lac_status status = folder_of(context, target, &folder);
  free(target);
  LAC_TRY(status);
  if (stat(folder, &about) != 0) {
    status = lac_fail(context, LAC_E_OUTPUT, "%s: its folder %s cannot be used: %s", path, folder, strerror(errno));
  } else if (!S_ISDIR(about.st_mode)) {
    status = lac_fail(context, LAC_E_OUTPUT, "%s: %s is not a folder", path, folder);
  } else if (access(folder, W_OK | X_OK) != 0) {
    status = lac_fail(context, LAC_E_OUTPUT, "%s: its folder %s cannot be written: %s", path, folder, strerror(errno));
  }
  free(folder);
  return status;
}

static lac_status cannot_write(lac_context *context, const char *path, int error) {
  return lac_fail(context, LAC_E_OUTPUT, "%s: cannot be written: %s", path, strerror(error));
}

/* Creates a file with a new name beside `target`; `path` is its name in messages. The kernel applies the umask, which
 * this process could only ask for by changing it under the feet of other threads. */
static lac_status create_beside(lac_context *context, const char *path, const char *target, char **temporary,
                                int *descriptor) {
  enum { TRIES = 100 };
  for (int i = 0; i < TRIES; i++) {
    uint64_t number;
    if (getrandom(&number, sizeof number, GRND_NONBLOCK) != sizeof number) {
      number = (uint64_t)getpid() * TRIES + (uint64_t)i;
    }
    LAC_TRY(lac_format_text(context, temporary, "%s.part-%08x", target, (unsigned)number));
    *descriptor = open(*temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    int error = errno;
    if (*descriptor >= 0) {
      return LAC_OK;
    }
    free(*temporary);
    *temporary = NULL;
    if (error != EEXIST) {
      return cannot_write(context, path, error);
    }
  }
  return cannot_write(context, path, EEXIST);
}

/* A pipe is waited for until somebody reads it, or an interrupt comes. */
static lac_status open_special(lac_context *context, const char *path, const char *target, int *descriptor) {
  do {
    *descriptor = open(target, O_WRONLY | O_CLOEXEC);
  } while (*descriptor < 0 && errno == EINTR && !lac_context_interrupted(context));
  if (*descriptor >= 0) {
    return LAC_OK;
  }
  return errno == EINTR ? lac_fail(context, LAC_E_INTERRUPTED, "%s: interrupted while waiting for its reader", path)
                        : cannot_write(context, path, errno);
}

static lac_status open_target(lac_context *context, lac_output *output) {
  struct stat about;
  bool exists = stat(output->target, &about) == 0;
  int descriptor = -1, own = descriptor_of(output->path);
  if (own >= 0) { /* at its own place in the file */
    descriptor = fcntl(own, F_DUPFD_CLOEXEC, 3);
    if (descriptor < 0) {
      return cannot_write(context, output->path, errno);
    }
  } else if (exists && !S_ISREG(about.st_mode)) { /* a pipe, a device: nothing to rename over */
    LAC_TRY(open_special(context, output->path, output->target, &descriptor));
  } else {
    LAC_TRY(create_beside(context, output->path, output->target, &output->temporary, &descriptor));
    if (exists) {
      (void)!fchmod(descriptor, about.st_mode & 0777);
    }
  }
  output->file = fdopen(descriptor, "wb");
  if (!output->file) {
    close(descriptor);
    return lac_fail(context, LAC_E_MEMORY, "%s: cannot allocate a stream", output->path);
  }
  return LAC_OK;
}

lac_status lac_output_open(lac_context *context, const char *path, lac_output *output) {
  *output = (lac_output){0};
  LAC_TRY(lac_output_check(context, path));
  lac_status status = lac_copy_text(context, path, &output->path);
  if (!status) {
    status = resolve(context, path, &output->target);
  }
  if (!status) {
    status = open_target(context, output);
  }
  if (status) {
    lac_output_discard(output);
  }
  return status;
}

lac_status lac_output_write(lac_context *context, lac_output *output, const void *data, size_t bytes) {
  if (bytes && fwrite(data, 1, bytes, output->file) != bytes) {
    return lac_fail(context, LAC_E_IO, "%s: writing failed: %s", output->path, strerror(errno));
  }
  return LAC_OK;
}

lac_status lac_output_commit(lac_context *context, lac_output *output) {
  lac_status status = LAC_OK;
  errno = 0;
  bool whole =
      !ferror(output->file) && fflush(output->file) == 0 && (!output->temporary || fsync(fileno(output->file)) == 0);
  int error = errno;
  if (fclose(output->file) != 0 && whole) {
    whole = false;
    error = errno;
  }
  output->file = NULL;
  if (whole && output->temporary && rename(output->temporary, output->target) != 0) {
    whole = false;
    error = errno;
  }
  if (!whole) {
    status =
        lac_fail(context, LAC_E_IO, "%s: writing failed: %s", output->path, error ? strerror(error) : "unknown error");
  } else {
    free(output->temporary);
    output->temporary = NULL; /* renamed: nothing to remove */
  }
  lac_output_discard(output);
  return status;
}

void lac_output_discard(lac_output *output) {
  if (output->file) {
    fclose(output->file);
  }
  if (output->temporary) {
    unlink(output->temporary);
  }
  free(output->temporary);
  free(output->target);
  free(output->path);
  *output = (lac_output){0};
}
