# The same program for SimGrid's SMPI, which runs its ranks on a simulated cluster in one process: a module that smpirun
# loads once for each rank. SMPI has an mpi.h of its own and must never meet the real MPI. The rooms that know of MPI are
# compiled a second time for it, and the program, as the code of a module; the other rooms are the objects of the library.
add_library(laconic_smpi_objects OBJECT)
foreach(room ${laconic_mpi_rooms})
  file(GLOB room_sources CONFIGURE_DEPENDS src/${room}/*.c)
  target_sources(laconic_smpi_objects PRIVATE ${room_sources})
endforeach()
target_include_directories(laconic_smpi_objects PRIVATE include src)
target_include_directories(laconic_smpi_objects SYSTEM BEFORE PRIVATE ${SIMGRID_INCLUDE_DIR}/smpi
                                                                      ${SIMGRID_INCLUDE_DIR})
target_compile_definitions(laconic_smpi_objects PRIVATE LACONIC_HAVE_MPI=1 LACONIC_SMPI=1)
target_link_libraries(laconic_smpi_objects PRIVATE laconic_options laconic_dependencies_but_mpi)

# A module of these sources and the library.
function(laconic_smpi_module target)
  add_library(${target} MODULE ${ARGN} $<TARGET_OBJECTS:laconic_room_objects> $<TARGET_OBJECTS:laconic_smpi_objects>)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${target} PRIVATE laconic_options laconic_dependencies_but_mpi ${SIMGRID_LIBRARY} -Wl,-z,defs)
  # SMPI looks for its main, and copies the file for each rank: without what only a debugger reads, it is a quarter.
  target_link_options(${target} PRIVATE -s)
  set_target_properties(${target} PROPERTIES PREFIX "" LINKER_LANGUAGE C C_VISIBILITY_PRESET default)
endfunction()

laconic_smpi_module(laconic_smpi ${cli_sources})
target_compile_definitions(laconic_smpi PRIVATE LACONIC_SMPI=1)
# clang-tidy sees these sources as the program's.
set_target_properties(laconic_smpi PROPERTIES OUTPUT_NAME laconic-smpi EXPORT_COMPILE_COMMANDS OFF)

# Reads a platform file for the planner.
add_executable(laconic_platform tools/platform.c)
target_include_directories(laconic_platform SYSTEM PRIVATE ${SIMGRID_INCLUDE_DIR})
target_link_libraries(laconic_platform PRIVATE laconic_options PkgConfig::jansson ${SIMGRID_LIBRARY})
set_target_properties(laconic_platform PROPERTIES OUTPUT_NAME laconic-platform)
