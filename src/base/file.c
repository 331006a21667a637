#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
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

lac_status lac_output_check(lac_context *context, const char *path) {
  struct stat about;
  if (!*path) {
    return lac_fail(context, LAC_E_OUTPUT, "the output has an empty name");
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
  char *folder;
  LAC_TRY(folder_of(context, path, &folder));
  lac_status status = LAC_OK;
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

lac_status lac_output_open(lac_context *context, const char *path, lac_output *output) {
  *output = (lac_output){0};
  LAC_TRY(lac_output_check(context, path));
  struct stat about;
  bool special = stat(path, &about) == 0 && !S_ISREG(about.st_mode); /* /dev/stdout, a pipe: nothing to rename over */
  LAC_TRY(lac_copy_text(context, path, &output->path));
  int descriptor;
  if (special) {
    descriptor = open(path, O_WRONLY | O_CLOEXEC);
  } else {
    lac_status status = lac_format_text(context, &output->temporary, "%s.part-XXXXXX", path);
    if (status) {
      free(output->path);
      *output = (lac_output){0};
      return status;
    }
    descriptor = mkostemp(output->temporary, O_CLOEXEC);
  }
  int error = errno;
  if (descriptor >= 0 && !special) {
    mode_t mask = umask(0);
    umask(mask);
    (void)!fchmod(descriptor, stat(path, &about) == 0 ? about.st_mode & 0777 : 0666 & ~mask);
  }
  output->file = descriptor < 0 ? NULL : fdopen(descriptor, "wb");
  if (!output->file) {
    if (descriptor >= 0) {
      close(descriptor);
      if (output->temporary) {
        unlink(output->temporary);
      }
    }
    free(output->temporary);
    free(output->path);
    *output = (lac_output){0};
    return lac_fail(context, LAC_E_OUTPUT, "%s: cannot be written: %s", path, strerror(error));
  }
  return LAC_OK;
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
  if (whole && output->temporary && rename(output->temporary, output->path) != 0) {
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
  free(output->path);
  *output = (lac_output){0};
}
