/* laconic-platform FILE [N ...]: what a planner needs to know of a SimGrid platform, as one JSON object on standard
 * output:
 *
 *     {"hosts":[{"name","speed"}, ...],"networks":[{"hosts","latency","bandwidth"}, ...]}
 *
 * Hosts in the natural order of their names, speeds in operations a second; for the first N of them, in the order
 * asked for and no more than there are, or for all, the longest latency (seconds) and the least bandwidth (bytes a
 * second) of the routes from each to the next, the last to the first; both 0 for a single host. It is a program of its
 * own because SimGrid ends the process when a platform is wrong: then it prints why on
 * standard error, and the status is 2. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int by_name(const void *a, const void *b) {
  return strverscmp(sg_host_get_name(*(const sg_host_t *)a), sg_host_get_name(*(const sg_host_t *)b));
}

/* What no planner, and no simulation, can do with. */
static void refuse(const char *what, const char *name, const char *other, double value) {
  fprintf(stderr, "laconic-platform: %s of %s%s%s: found %g, expected a finite number above 0\n", what, name,
          other ? " to " : "", other ? other : "", value);
  exit(2);
}

static json_t *describe_hosts(sg_host_t const *hosts, size_t count) {
  json_t *list = json_array();
  for (size_t i = 0; i < count; i++) {
    double speed = sg_host_get_speed(hosts[i]);
    if (!isfinite(speed) || speed < 1e-9 || speed > 1e30) {
      refuse("speed", sg_host_get_name(hosts[i]), NULL, speed);
    }
    json_array_append_new(
        list, json_pack("{s:s,s:f}", "name", sg_host_get_name(hosts[i]), "speed", sg_host_get_speed(hosts[i])));
  }
  return list;
}

static json_t *describe_network(const sg_host_t *hosts, size_t count) {
  double latency = 0, bandwidth = 0;
  for (size_t i = 0; count > 1 && i < count; i++) {
    sg_host_t next = hosts[(i + 1) % count];
    double route_latency = sg_host_get_route_latency(hosts[i], next);
    double route_bandwidth = sg_host_get_route_bandwidth(hosts[i], next);
    if (!(route_latency >= 0) || !(route_latency < 1e9)) {
      refuse("latency", sg_host_get_name(hosts[i]), sg_host_get_name(next), route_latency);
    }
    if (!(route_bandwidth >= 1e-3) || !(route_bandwidth < 1e30)) {
      refuse("bandwidth", sg_host_get_name(hosts[i]), sg_host_get_name(next), route_bandwidth);
    }
    latency = route_latency > latency ? route_latency : latency;
    bandwidth = i == 0 || route_bandwidth < bandwidth ? route_bandwidth : bandwidth;
  }
  return json_pack("{s:I,s:f,s:f}", "hosts", (json_int_t)count, "latency", latency, "bandwidth", bandwidth);
}

static json_t *describe(sg_host_t *hosts, size_t count, char *const *sizes) {
  json_t *networks = json_array();
  qsort(hosts, count, sizeof *hosts, by_name);
  for (int i = 0; sizes[i]; i++) {
    size_t size = strtoul(sizes[i], NULL, 10);
    json_array_append_new(networks, describe_network(hosts, size < count ? size : count));
  }
  if (!sizes[0]) {
    json_array_append_new(networks, describe_network(hosts, count));
  }
  return json_pack("{s:o,s:o}", "hosts", describe_hosts(hosts, count), "networks", networks);
}

/* SimGrid aborts when it cannot read a platform, and has said why, and crashes where there is no route. */
static void on_end(int number) {
  static const char text[] = "laconic-platform: found no route from a host to the next, expected one\n";
  if (number == SIGSEGV) {
    ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
    (void)written;
  }
  _exit(2);
}

int main(int argc, char **argv) {
  /* SimGrid's own option: messages without place and time. */
  char format[] = "--log=root.fmt:%m%n", *own[] = {argv[0], format, NULL};
  int own_count = 2;
  if (argc < 2) {
    fprintf(stderr, "laconic-platform: found no arguments, expected the name of a platform file\n");
    return 2;
  }
  FILE *file = fopen(argv[1], "r");
  if (!file) {
    fprintf(stderr, "laconic-platform: %s: %s\n", argv[1], strerror(errno));
    return 2;
  }
  fclose(file);
  signal(SIGABRT, on_end);
  signal(SIGSEGV, on_end);
  simgrid_init(&own_count, own);
  simgrid_load_platform(argv[1]);
  size_t count = sg_host_count();
  if (count == 0) {
    fprintf(stderr, "laconic-platform: %s: found no hosts, expected one or more\n", argv[1]);
    return 2;
  }
  sg_host_t *hosts = sg_host_list();
  json_t *platform = describe(hosts, count, argv + 2);
  if (!platform || json_dumpf(platform, stdout, JSON_COMPACT | JSON_REAL_PRECISION(15)) != 0 || printf("\n") < 0 ||
      fflush(stdout) != 0) {
    fprintf(stderr, "laconic-platform: %s: cannot be described\n", argv[1]);
    return 1;
  }
  json_decref(platform);
  free(hosts);
  return 0;
}
