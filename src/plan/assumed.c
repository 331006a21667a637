/* What a common processor takes for a case: the arithmetic of each part, at rates that are assumed. Cases of other
 * sizes are scaled by the same formulas, so that of a measured machine only the form below counts and not the rates.
 *
 * With D columns, F inputs of the encoder (D of a linear one; of an RBF one as many as it has centres, which are no
 * part of a case: 1000, the default), L bits:
 *
 *   encoder          4 F flop of training, and a loss
 *   visit            each row is read once and made F floats
 *   decoder's group  nothing: its sums are made before the W step
 *   begin            L bits are counted, and of L a few in a hundred have changed and add a row of D
 *   Z                products with encoder and decoder, 2 L (D + F) flop, L rounded up to 16; then up to 16 bits an
 *                    enumeration that is cut short, beyond them flips that each touch L numbers, some of them L at once
 *   start per point  statistics, codes and sums, some 16 D values and 2 L D flop, and a Z step; of an RBF encoder its
 *                    features, 2 D F flop and F exponentials, in place of the Z step
 *   start            of the sample of 10,000 rows or 10 D the covariance, D^2 each; its eigenvectors, D^3; 50 rounds of
 *                    ITQ, 4 L^2 each, some times over for short codes; of 200 validation points the neighbours among
 *                    4,000, 2 D flop each
 *   iteration        the decoder's equations, L^3 + L^2 D; validation has its codes from the Z step
 *   finish           per point codes and sums; the decoder's equations
 *
 * The rates fit to a half or so what laconic plan calibrate found at D = 128 and 784, L = 16 and 64 on one core of a
 * Xeon of 2023 with AVX-512, and all of it is made slower by half, which is nearer to what is found in a cluster. */
#include <math.h>

#include "plan/calibration.h"

enum {
  CENTRES = 1000,
  EXACT_BITS = 16,
  SAMPLE = 10000,
  QUERIES = 200,
  BASE = 4000,
  ROUNDS = 50,
  STARTS = 8,
  START_BITS = 128
};

static const double slower = 1.5;
static const double product = 1 / 140e9;         /* a flop of products with all bits, */
static const double training = 1 / 120e9;        /* … of the W step's kernels, */
static const double plain = 1 / 40e9;            /* … of a matrix product beside its reading, */
static const double dense = 1 / 20e9;            /* … of small equations and eigenvectors */
static const double value = 0.16e-9;             /* a value is read and made a float */
static const double loss = 8e-9;                 /* of a point and an encoder */
static const double count = 2.1e-9;              /* of a bit in the sums */
static const double change = 4.5e-12;            /* of a bit in the sums, per column, seldom as it is */
static const double enumeration = 0.37e-6;       /* of a point at 16 bits */
static const double flip = 5e-9, turn = 0.02e-9; /* of a bit, and of a pair of bits, in the search of a point */
static const double early = 1.3;                 /* as long, what depends on how much a small mu changes */
static const double exponential = 10e-9;
static const double submodel = 0.4e-6, step = 1e-3; /* whatever the points */

static double z_point(double d, double f, double l) {
  double wide = ceil(l / EXACT_BITS) * EXACT_BITS;
  double search = l <= EXACT_BITS ? enumeration * exp2((l - EXACT_BITS) / 2) : flip * l + turn * l * l;
  return product * 2 * wide * (d + f) + value * (f > d || f < d ? d + f : d) + search;
}

static double start_point(double d, double f, double l, bool rbf) {
  return value * 16 * d + plain * 2 * l * d + (rbf ? plain * 2 * d * f + exponential * f : z_point(d, f, l));
}

static double start_fixed(double d, double f, double l, bool rbf) {
  double sample = fmax(SAMPLE, 10 * fmax(d, rbf ? f : 0));
  double components = plain * sample * d * d + dense * 8 * d * d * d;
  double features = rbf ? plain * sample * f * f + dense * 8 * f * f * f : 0;
  double starts = rbf ? 1 : fmax(1, fmin(STARTS, floor(START_BITS / l)));
  return components + features + starts * dense * ROUNDS * 4 * sample * l * l + plain * 2 * QUERIES * BASE * d;
}

void lac_hash_assumed(const lac_hash_case *which, lac_hash_costs *costs) {
  bool rbf = which->encoder == LAC_ENCODER_RBF;
  double d = (double)which->columns, l = (double)which->bits, f = rbf ? CENTRES : d;
  double encode = product * 2 * l * f + value * f, equations = dense * (l * l * l + 4 * l * l * d);
  *costs = (lac_hash_costs){.mac = {.begin = slower * (count * l + change * l * d),
                                    .visit = slower * value * (f + 70),
                                    .kinds = 2,
                                    .submodel = {slower * (training * 4 * f + loss)},
                                    .handling = slower * submodel,
                                    .z = slower * z_point(d, f, l),
                                    .early = LAC_HASH_EARLY,
                                    .early_begin = slower * (count * l + early * change * l * d),
                                    .early_z = slower * early * z_point(d, f, l)},
                            .start_point = slower * start_point(d, f, l, rbf),
                            .start_fixed = slower * start_fixed(d, f, l, rbf),
                            .iteration_point = slower * 1e-9,
                            .iteration_fixed = slower * (step + equations),
                            .finish_point = slower * (encode + count * l),
                            .finish_fixed = slower * (equations + 1e-4),
                            .basis = LAC_BASIS_ASSUMED};
}

static double ratio(double measured, double from, double to) {
  return measured * (to / from);
}

void lac_hash_scale(const lac_hash_entry *from, const lac_hash_case *to, lac_hash_costs *costs) {
  const lac_hash_costs *measured = &from->costs;
  lac_hash_costs a, b;
  lac_hash_assumed(&from->which, &a);
  lac_hash_assumed(to, &b);
  *costs =
      (lac_hash_costs){.mac = {.begin = ratio(measured->mac.begin, a.mac.begin, b.mac.begin),
                               .visit = ratio(measured->mac.visit, a.mac.visit, b.mac.visit),
                               .kinds = measured->mac.kinds,
                               .handling = ratio(measured->mac.handling, a.mac.handling, b.mac.handling),
                               .z = ratio(measured->mac.z, a.mac.z, b.mac.z),
                               .early = measured->mac.early,
                               .early_begin = ratio(measured->mac.early_begin, a.mac.early_begin, b.mac.early_begin),
                               .early_z = ratio(measured->mac.early_z, a.mac.early_z, b.mac.early_z)},
                       .start_point = ratio(measured->start_point, a.start_point, b.start_point),
                       .start_fixed = ratio(measured->start_fixed, a.start_fixed, b.start_fixed),
                       .iteration_point = ratio(measured->iteration_point, a.iteration_point, b.iteration_point),
                       .iteration_fixed = ratio(measured->iteration_fixed, a.iteration_fixed, b.iteration_fixed),
                       .finish_point = ratio(measured->finish_point, a.finish_point, b.finish_point),
                       .finish_fixed = ratio(measured->finish_fixed, a.finish_fixed, b.finish_fixed),
                       .basis = LAC_BASIS_SCALED};
  for (int kind = 0; kind < costs->mac.kinds; kind++) { /* what a decoder's group takes, if anything, goes with D too */
    costs->mac.submodel[kind] = ratio(measured->mac.submodel[kind], a.mac.submodel[0], b.mac.submodel[0]);
  }
}

/* A gradient is a forward pass and a backward one of twice the work, at 70 GFLOP/s: large convolutions make more than
 * twice that on a core with AVX-512, small layers half. */
double lac_gradient_assumed(int64_t batch, double flops) {
  return 3 * (double)batch * flops / 70e9;
}
