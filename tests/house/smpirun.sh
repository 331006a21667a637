#!/bin/sh
# smpirun as a program of this project needs it: smpirun.sh -np RANKS -platform FILE -hostfile FILE [option…] MODULE [argument…].
# LACONIC_REAL_SMPIRUN says which smpirun. No argument of the program may hold white space: smpirun splits them again. The
# status is the program's, but 0 after a deadlock: whoever calls it looks for the end of the program's output.
#
# network/…      a message of b bytes takes latency + (b + 16) / bandwidth (MPI's envelope has 16), without the corrections
#                of the other models, the limit of a TCP window, or a share for acknowledgements
# smpi/…-thresh  sends return at once and their transfers begin at once
# smpi/test, …   nothing but lac_world_spend and messages takes time; what this machine really computes is not counted
# smpi/host-speed  of the machine for which the seconds of lac_world_spend hold; a platform's 1Gf is as fast
# smpi/privatization  each rank loads the module anew, with the libraries that it was linked with: without that, SimGrid's
#                own come first, and another BLAS gives other bits
exec "${LACONIC_REAL_SMPIRUN:-smpirun}" -quiet \
  --cfg=network/model:CM02 --cfg=network/TCP-gamma:0 --cfg=network/crosstraffic:0 --cfg=network/weight-S:0 \
  --cfg=smpi/send-is-detached-thresh:2147483647 --cfg=smpi/async-small-thresh:2147483647 \
  --cfg=smpi/simulate-computation:no --cfg=smpi/cpu-threshold:0 --cfg=smpi/host-speed:1Gf \
  --cfg=smpi/privatization:dlopen --cfg=smpi/test:0 --cfg=smpi/iprobe:0 --cfg=smpi/wtime:0 --cfg=smpi/init:0 \
  --log=root.thresh:error --log=smpi_kernel.thresh:critical "$@"
