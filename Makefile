# The front door. `make help` lists what there is; CMakePresets.json has the trees behind it.

# Debian 12 packages, each named once. LACONIC_PACKAGES=0 leaves installation to you.
BUILD_PACKAGES = gcc libc6-dev cmake ninja-build pkgconf libopenmpi-dev libopenblas-dev liblapacke-dev libhdf5-dev \
                 zlib1g-dev librandom123-dev libjansson-dev libprotobuf-c-dev protobuf-c-compiler libdnnl-dev \
                 libarpack2-dev libsuitesparse-dev
RUN_PACKAGES   = openmpi-bin gnuplot-nox
PEER_PACKAGES  = python3 python3-numpy python3-faiss
CHECK_PACKAGES = git libsimgrid-dev libcmocka-dev clang clang-format clang-tidy libclang-rt-14-dev python3-h5py
DEMO_PACKAGES  = dataset-fashion-mnist
LONG_PACKAGES  = $(if $(shell command -v npm),,nodejs npm)
BENCH_PACKAGES = python3-torch python3-scipy

# Results must not depend on what the environment says of threads, processors or launchers.
unexport CI CMAKE_GENERATOR CMAKE_BUILD_TYPE CMAKE_PREFIX_PATH CPATH DESTDIR LD_LIBRARY_PATH LD_PRELOAD MAKEFLAGS
unexport OMP_NUM_THREADS OPENBLAS_CORETYPE OPENBLAS_L2_SIZE OPENBLAS_NUM_THREADS GOTO_NUM_THREADS MALLOC_ARENA_MAX
unexport ONEDNN_MAX_CPU_ISA DNNL_MAX_CPU_ISA ONEDNN_CPU_ISA_HINTS DNNL_CPU_ISA_HINTS ONEDNN_VERBOSE DNNL_VERBOSE
unexport ONEDNN_DEFAULT_FPMATH_MODE DNNL_DEFAULT_FPMATH_MODE OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_RANK PMIX_RANK PMI_RANK PMI_SIZE

JOBS    := $(shell nproc)
PYTHON  := /usr/bin/python3
DESTDIR ?=
prefix  ?= /usr/local
SHELL   := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help build check check-long demo bench install format tidy clean packages-build packages-check packages-demo packages-long packages-bench

help:  ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

packages-build:
	@cmake/packages.sh $(BUILD_PACKAGES) $(RUN_PACKAGES)

packages-check:
	@cmake/packages.sh $(BUILD_PACKAGES) $(RUN_PACKAGES) $(PEER_PACKAGES) $(CHECK_PACKAGES)

packages-bench:
	@cmake/packages.sh $(BUILD_PACKAGES) $(RUN_PACKAGES) $(PEER_PACKAGES) $(DEMO_PACKAGES) $(BENCH_PACKAGES)

packages-long:
	@cmake/packages.sh $(LONG_PACKAGES)

packages-demo:
	@cmake/packages.sh $(BUILD_PACKAGES) $(RUN_PACKAGES) $(DEMO_PACKAGES)

build: packages-build  ## install what is missing and build; the program is build/laconic
	@cmake --preset release -DLACONIC_TESTS=OFF -Wno-dev --log-level=WARNING
	@cmake --build --preset release -j $(JOBS)

check: packages-check  ## every test of the default tier, sanitised too, and the style checks
	@tests/check.sh

check-long: packages-check packages-demo packages-long  ## thread sanitizer, fuzzing, what needs LACONIC_DATA or npm
	@tests/check-long.sh

demo: packages-demo build  ## train on Fashion-MNIST with 2 workers and compare four kinds of hash codes
	@examples/demo.sh build/laconic build/demo

bench: packages-bench build  ## measure what docs/benchmarks.md reports: an hour on a machine of its own
	@env $$($(PYTHON) bench/blas.py) build/bench/machine
	@env $$($(PYTHON) bench/blas.py) build/bench/kernels
	@build/bench/ring_convoys
	@build/bench/ring_order
	@$(PYTHON) bench/encode_faiss.py build/bench/encode
	@$(PYTHON) bench/search_faiss.py build/bench/search
	@$(PYTHON) bench/nets_torch.py build/bench/nets
	@for driver in hash_quality hash_far hash_speed ring scale; do $(PYTHON) bench/$$driver.py; done

install: build  ## install under prefix=/usr/local (and DESTDIR)
	@DESTDIR=$(DESTDIR) cmake --install build --prefix $(prefix)

format: packages-check  ## format every C file in place
	@tests/format.sh -i

tidy: packages-check build  ## clang-tidy over the sources
	@tests/tidy.sh build

clean:  ## remove every build tree
	@rm -rf build build-asan build-tsan build-fuzz build-coverage
