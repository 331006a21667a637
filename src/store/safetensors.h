/* The room's name for a public header. */
#ifndef LACONIC_STORE_SAFETENSORS_H
#define LACONIC_STORE_SAFETENSORS_H

#include "laconic/tensors.h"

#endif
