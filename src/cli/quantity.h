/* Quantities as people write them: times, sizes, networks, lists of sizes. Each failure names the option, what was
 * found and what forms are taken; all are USAGE. */
#ifndef LACONIC_CLI_QUANTITY_H
#define LACONIC_CLI_QUANTITY_H

#include "cli/session.h"

/* "2h", "1h30m", "45s", "20ms", "50us" or plain seconds: above 0, at most 1e9 s. */
LAC_MUST_USE lac_status lac_parse_duration(lac_session *session, const char *key, const char *text, double *seconds);

/* "1.1M", "64k", "2G", "4096", each also with a B behind it: bytes, by powers of 1,000; from 1 to 1e18. */
LAC_MUST_USE lac_status lac_parse_bytes(lac_session *session, const char *key, const char *text, double *bytes);

typedef struct lac_network {
  double bandwidth; /* bytes a second through a worker's link, each way */
  double latency;   /* seconds of a message */
} lac_network;

/* "1Gbit,50us": bandwidth in bit, kbit, Mbit, Gbit a second (or B, kB, MB, GB), above 0 and at most 1e18 bytes, and
 * the latency, at most 1e9 s. */
LAC_MUST_USE lac_status lac_parse_network(lac_session *session, const char *key, const char *text,
                                          lac_network *network);

enum { LAC_SIZES = 256 };

/* "16", "4,8,16", "8:128:x2" (8, 16, … 128) or "8:64:8" (8, 16, 24, … 64): rising, at most LAC_SIZES. */
LAC_MUST_USE lac_status lac_parse_sizes(lac_session *session, const char *key, const char *text,
                                        int64_t sizes[LAC_SIZES], int *count);

#endif
