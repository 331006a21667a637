/* The library's version. */
#ifndef LACONIC_VERSION_H
#define LACONIC_VERSION_H

#include "laconic/status.h"

#define LAC_VERSION "0.1.0"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library that is linked, as against LAC_VERSION of the header. Local. */
LAC_API const char *lac_version(void);

#ifdef __cplusplus
}
#endif
#endif
