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

add_library(laconic_dependencies INTERFACE)
target_include_directories(laconic_dependencies SYSTEM INTERFACE ${RANDOM123_INCLUDE_DIR} ${CHOLMOD_INCLUDE_DIR})
target_link_libraries(laconic_dependencies INTERFACE PkgConfig::openblas PkgConfig::lapacke PkgConfig::arpack
                                                     ${CHOLMOD_LIBRARY} PkgConfig::hdf5 PkgConfig::zlib
                                                     PkgConfig::jansson PkgConfig::libprotobuf-c Threads::Threads m)
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
  target_include_directories(laconic_dependencies SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
  target_link_libraries(laconic_dependencies INTERFACE ${DNNL_LIBRARY} gomp)
  target_compile_definitions(laconic_dependencies INTERFACE LACONIC_HAVE_ONEDNN=1)
endif()
