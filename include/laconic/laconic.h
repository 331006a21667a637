/* Everything public. */
#ifndef LACONIC_LACONIC_H
#define LACONIC_LACONIC_H

#include "laconic/calibration.h"
#include "laconic/checkpoint.h"
#include "laconic/classifier.h"
#include "laconic/context.h"
#include "laconic/dataset.h"
#include "laconic/hash.h"
#include "laconic/images.h"
#include "laconic/mac.h"
#include "laconic/mixing.h"
#include "laconic/net.h"
#include "laconic/optimizer.h"
#include "laconic/options.h"
#include "laconic/output.h"
#include "laconic/plan.h"
#include "laconic/process.h"
#include "laconic/profile.h"
#include "laconic/replica.h"
#include "laconic/retrieval.h"
#include "laconic/shape.h"
#include "laconic/status.h"
#include "laconic/tensors.h"
#include "laconic/topology.h"
#include "laconic/version.h"
#include "laconic/world.h"

#endif
