# Warnings and code generation that every target of the project shares.
add_library(laconic_options INTERFACE)
target_compile_definitions(laconic_options INTERFACE _GNU_SOURCE)
target_compile_options(
  laconic_options
  INTERFACE -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wwrite-strings -Wvla
            -Wno-missing-field-initializers
            # Bits must not depend on what the compiler fuses: kernels write their fused operations themselves.
            -ffp-contract=off -fno-math-errno)

# What a sanitised program needs at start; empty otherwise. For programs only, a library takes the program's.
add_library(laconic_sanitizers INTERFACE)
if(LACONIC_SANITIZE)
  target_compile_options(laconic_options INTERFACE -fsanitize=${LACONIC_SANITIZE} -fno-omit-frame-pointer
                                                   -fno-sanitize-recover=all)
  target_link_options(laconic_options INTERFACE -fsanitize=${LACONIC_SANITIZE})
  add_library(laconic_sanitizer_defaults OBJECT cmake/sanitizers.c)
  target_sources(laconic_sanitizers INTERFACE $<TARGET_OBJECTS:laconic_sanitizer_defaults>)
endif()
if(LACONIC_FUZZ)
  target_compile_options(laconic_options INTERFACE -fsanitize=fuzzer-no-link)
endif()
