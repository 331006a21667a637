# Everything outside this project. The Makefile names the Debian packages.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
foreach(module openblas lapacke arpack hdf5 zlib jansson libprotobuf-c)
  pkg_check_modules(${module} REQUIRED IMPORTED_TARGET ${module})
endforeach()
find_program(PROTOC_C protoc-c REQUIRED)
find_path(CHOLMOD_INCLUDE_DIR cholmod.h PATH_SUFFIXES suitesparse REQUIRED)
find_library(CHOLMOD_LIBRARY cholmod REQUIRED)
find_path(RANDOM123_INCLUDE_DIR Random123/philox.h REQUIRED)

# All but MPI, which has another implementation in a program for SMPI.
add_library(laconic_dependencies_but_mpi INTERFACE)
target_include_directories(laconic_dependencies_but_mpi SYSTEM INTERFACE ${RANDOM123_INCLUDE_DIR}
                                                                         ${CHOLMOD_INCLUDE_DIR})
target_link_libraries(
  laconic_dependencies_but_mpi
  INTERFACE PkgConfig::openblas PkgConfig::lapacke PkgConfig::arpack ${CHOLMOD_LIBRARY} PkgConfig::hdf5 PkgConfig::zlib
            PkgConfig::jansson PkgConfig::libprotobuf-c Threads::Threads m)
add_library(laconic_dependencies INTERFACE)
target_link_libraries(laconic_dependencies INTERFACE laconic_dependencies_but_mpi)
if(LACONIC_MPI)
  find_package(MPI REQUIRED COMPONENTS C)
  target_link_libraries(laconic_dependencies INTERFACE MPI::MPI_C)
  target_compile_definitions(laconic_dependencies INTERFACE LACONIC_HAVE_MPI=1)
endif()
if(LACONIC_ONEDNN)
  # Not by oneDNN's own package file: Debian's asks for OpenCL, of which nothing is used here. libgomp is the OpenMP that
  # this oneDNN computes with, whatever compiler builds Laconic.
  find_path(DNNL_INCLUDE_DIR dnnl.h REQUIRED)
  find_library(DNNL_LIBRARY dnnl REQUIRED)
  target_include_directories(laconic_dependencies_but_mpi SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
  target_link_libraries(laconic_dependencies_but_mpi INTERFACE ${DNNL_LIBRARY} gomp)
  target_compile_definitions(laconic_dependencies_but_mpi INTERFACE LACONIC_HAVE_ONEDNN=1)
endif()
if(LACONIC_SMPI AND LACONIC_MPI AND NOT LACONIC_SANITIZE)
  find_path(SIMGRID_INCLUDE_DIR smpi/mpi.h)
  find_library(SIMGRID_LIBRARY simgrid)
  find_program(SMPIRUN smpirun)
  if(SIMGRID_INCLUDE_DIR AND SIMGRID_LIBRARY AND SMPIRUN)
    set(laconic_has_smpi ON)
  else()
    message(STATUS "SimGrid was not found: no program for its simulator SMPI is built (Debian: libsimgrid-dev)")
  endif()
endif()
