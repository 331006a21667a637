# Everything outside this project, by the names of its Debian packages in the Makefile.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(openblas REQUIRED IMPORTED_TARGET openblas)
pkg_check_modules(lapacke REQUIRED IMPORTED_TARGET lapacke)
pkg_check_modules(hdf5 REQUIRED IMPORTED_TARGET hdf5)
pkg_check_modules(zlib REQUIRED IMPORTED_TARGET zlib)
pkg_check_modules(jansson REQUIRED IMPORTED_TARGET jansson)
find_path(RANDOM123_INCLUDE_DIR Random123/philox.h REQUIRED)

add_library(laconic_dependencies INTERFACE)
target_include_directories(laconic_dependencies SYSTEM INTERFACE ${RANDOM123_INCLUDE_DIR})
target_link_libraries(laconic_dependencies INTERFACE PkgConfig::openblas PkgConfig::lapacke PkgConfig::hdf5 PkgConfig::zlib
                                                     PkgConfig::jansson Threads::Threads m)
if(LACONIC_MPI)
  find_package(MPI REQUIRED COMPONENTS C)
  target_link_libraries(laconic_dependencies INTERFACE MPI::MPI_C)
  target_compile_definitions(laconic_dependencies INTERFACE LACONIC_HAVE_MPI=1)
endif()
