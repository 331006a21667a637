/* Output files: the room's name for a public header. */
#ifndef LACONIC_BASE_FILE_H
#define LACONIC_BASE_FILE_H

#include "laconic/output.h"

#endif
