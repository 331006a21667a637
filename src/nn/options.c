#include <stddef.h>

#include "laconic/net.h"

static const lac_option table[] = {
    {.key = "backend",
     .type = LAC_OPTION_NAME,
     .offset = offsetof(lac_net_options, backend),
     .names = lac_net_backend_names,
     .fallback = "auto",
     .help = "what computes the network: plain C and BLAS, or oneDNN; auto takes oneDNN where the build has it"},
    {.key = "precision",
     .type = LAC_OPTION_NAME,
     .offset = offsetof(lac_net_options, precision),
     .names = lac_net_precision_names,
     .fallback = "f32",
     .help = "of products and activations; parameters are float32 in any case; bf16 needs oneDNN and a processor "
             "that has it"},
    {.key = "convolution",
     .type = LAC_OPTION_NAME,
     .offset = offsetof(lac_net_options, convolution),
     .names = lac_net_convolution_names,
     .fallback = "auto",
     .help =
         "algorithm of oneDNN's convolutions; auto takes Winograd's where it is faster, which rounds a little more"},
    LAC_OPTIONS_END,
};

const lac_option *lac_net_option_table(void) {
  return table;
}
