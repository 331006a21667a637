/* How one option reads: shared by --help and the man page. */
#ifndef LACONIC_CLI_OPTION_TEXT_H
#define LACONIC_CLI_OPTION_TEXT_H

#include "laconic/options.h"

/* "--output FILE", "--bits N", "--no-range" for a flag that is on by default. */
void lac_option_label(const lac_option *option, char *label, size_t bytes);

/* The word for its value: "N", "X", "NAME", "FILE"; "" for a flag. */
const char *lac_option_placeholder(const lac_option *option);

/* Its help with what it takes: "length of a code (1 to 1024 bits, default 32)". */
void lac_option_help(const lac_option *option, char *help, size_t bytes);

/* Whether a flag is on unless --no-KEY is given. */
bool lac_option_default_on(const lac_option *option);

#endif
