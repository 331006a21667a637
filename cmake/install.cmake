# Headers, library, program, licence; pkg-config file laconic.pc; CMake package laconic with the target laconic::laconic;
# the man page and shell completion, which the program prints from its option tables.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# The program finds its library where the tree was put, also when that is not on the loader's path.
file(RELATIVE_PATH library_from_program ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
set_target_properties(laconic_program PROPERTIES INSTALL_RPATH "$ORIGIN/${library_from_program}")

install(TARGETS laconic EXPORT laconicTargets INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS laconic_program)
# The program finds these by LACONIC_HELPERS, from its own folder; in a build tree they are beside it.
set(helpers_dir ${CMAKE_INSTALL_LIBEXECDIR}/laconic)
file(RELATIVE_PATH helpers_from_program ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBEXECDIR}/laconic)
target_compile_definitions(laconic_program PRIVATE LACONIC_HELPERS="${helpers_from_program}")
if(laconic_has_smpi)
  install(TARGETS laconic_smpi laconic_platform LIBRARY DESTINATION ${helpers_dir} RUNTIME DESTINATION ${helpers_dir})
  target_compile_definitions(laconic_smpi PRIVATE LACONIC_HELPERS="${helpers_from_program}")
endif()
install(DIRECTORY include/laconic TYPE INCLUDE FILES_MATCHING PATTERN "*.h")
install(FILES LICENSE TYPE DOC)

# What a static library needs beside it; a shared one names its own.
set(laconic_requires openblas lapacke arpack hdf5 zlib jansson libprotobuf-c)
if(LACONIC_MPI)
  list(APPEND laconic_requires ompi-c)
endif()
list(JOIN laconic_requires " " laconic_requires)
set(laconic_libraries cholmod m) # those without a pkg-config file of theirs
if(LACONIC_ONEDNN)
  list(APPEND laconic_libraries dnnl gomp)
endif()
list(TRANSFORM laconic_libraries PREPEND -l OUTPUT_VARIABLE laconic_library_flags)
list(JOIN laconic_library_flags " " laconic_library_flags)
list(JOIN laconic_libraries " " laconic_libraries)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/laconic)
install(EXPORT laconicTargets NAMESPACE laconic:: DESTINATION ${package_dir})
configure_package_config_file(cmake/laconicConfig.cmake.in laconicConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(laconicConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/laconicConfig.cmake ${PROJECT_BINARY_DIR}/laconicConfigVersion.cmake
        DESTINATION ${package_dir})

file(RELATIVE_PATH include_from_library ${CMAKE_INSTALL_FULL_LIBDIR} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
configure_file(cmake/laconic.pc.in laconic.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/laconic.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(manual ${PROJECT_BINARY_DIR}/laconic.1)
set(completion ${PROJECT_BINARY_DIR}/laconic.bash)
add_custom_command(
  OUTPUT ${manual} ${completion}
  COMMAND laconic_program man > ${manual}
  COMMAND laconic_program completion bash > ${completion}
  DEPENDS laconic_program)
add_custom_target(laconic_documents ALL DEPENDS ${manual} ${completion})
install(FILES ${manual} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${completion} DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME laconic)
