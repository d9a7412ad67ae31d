# Flags for every file.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
# Assertions stay enabled in release builds: they check invariants and have no measurable cost.
# -g1: functions and lines for backtraces. Debug information of variables is rarely usable in optimized code and would
# take a fifth of the build time.
set(CMAKE_C_FLAGS_RELEASE "-O3 -g1")

# The library, the program and the tests use every tier of the public headers (docs/reference/api.md).
add_compile_definitions(_GNU_SOURCE BO_EXPERIMENTAL)
add_compile_options($<$<COMPILE_LANGUAGE:C>:-Wall> $<$<COMPILE_LANGUAGE:C>:-Wextra> $<$<COMPILE_LANGUAGE:C>:-pedantic>
                    $<$<COMPILE_LANGUAGE:C>:-Wshadow> $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes>
                    $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes> $<$<COMPILE_LANGUAGE:C>:-Wpointer-arith>
                    $<$<COMPILE_LANGUAGE:C>:-fvisibility=hidden> $<$<COMPILE_LANGUAGE:C>:-fno-math-errno>)
if(BOCHNER_WERROR)
  add_compile_options($<$<COMPILE_LANGUAGE:C>:-Werror>)
endif()
# No implicit fused multiply-add: the same source computes the same bits with every compiler. The directories of compute
# kernels enable it, because their order of operations is explicit.
add_compile_options($<$<COMPILE_LANGUAGE:C>:-ffp-contract=off>)

# Programs omit unused functions of the library (Apple's linker has another option).
if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  add_compile_options($<$<COMPILE_LANGUAGE:C>:-ffunction-sections> $<$<COMPILE_LANGUAGE:C>:-fdata-sections>)
  add_link_options(LINKER:--gc-sections)
endif()

# gcc 12 for ARM has an internal error in its vectorizer for loops that compute a maximum with fmax.
if(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND CMAKE_C_COMPILER_VERSION VERSION_LESS 13 AND
   CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  add_compile_options(-fno-builtin-fmax -fno-builtin-fmaxf -fno-builtin-fmin -fno-builtin-fminf)
endif()

if(BOCHNER_SANITIZE)
  set(CMAKE_C_FLAGS_RELEASE "-O1 -g")
  set(CMAKE_C_FLAGS_DEBUG "-O1 -g")
  add_compile_options(-fsanitize=${BOCHNER_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${BOCHNER_SANITIZE})
  string(REGEX MATCH "address|thread" sanitizer ${BOCHNER_SANITIZE})
  string(TOUPPER "BO_SANITIZE_${sanitizer}" sanitizer) # for tests: compilers have no common macro
  add_compile_definitions(${sanitizer})
endif()
if(BOCHNER_TINY) # for tests of block boundaries, not for speed
  set(CMAKE_C_FLAGS_RELEASE "-O1 -g")
  add_compile_definitions(BOCHNER_TINY)
endif()
if(BOCHNER_COVER) # counters are atomic; gcc's warning about initialization is wrong in instrumented code
  set(CMAKE_C_FLAGS_RELEASE "-O1 -g")
  add_compile_options(--coverage -fprofile-update=prefer-atomic -Wno-maybe-uninitialized)
  add_link_options(--coverage)
endif()
