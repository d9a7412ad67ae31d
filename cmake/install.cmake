# Files of `make install`, in components (cmake --install build --component NAME):
#   runtime      the shared library
#   development  headers, static library, the link that -lbochner finds, pkg-config file, CMake package; needs runtime
#   program      bochner, its man page and the completion scripts of shells; needs no other component
#   lab          bochner-lab, which `bochner lab` runs, and its man page; needs program
#   bench        bochner-bench, which `bochner bench` runs, and its man page; needs program
#   mpi          the plugin that bochner loads under mpirun, if MPI is available
#   cuda         the plugin that the library loads for GPUs, if it was built (`make`, with nvcc)
include(CMakePackageConfigHelpers)
set(BOCHNER_COMPONENTS runtime development program lab bench mpi cuda)
set(BOCHNER_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/bochner)

# At the start: enable stripping and record which directories do not exist yet. At the end: record the added files for
# scripts/uninstall. A project that includes Bochner defines its own installation.
configure_file(cmake/installed.cmake.in installed.cmake @ONLY)
foreach(component ${BOCHNER_COMPONENTS})
  if(BOCHNER_STRIP)
    install(CODE "set(CMAKE_INSTALL_DO_STRIP ON)" COMPONENT ${component})
  endif()
  if(BOCHNER_ON_TOP)
    install(CODE "include(\"${PROJECT_BINARY_DIR}/installed.cmake\")\nnote_directories()" COMPONENT ${component})
  endif()
endforeach()

install(TARGETS bochner_shared EXPORT bochnerTargets LIBRARY COMPONENT runtime NAMELINK_COMPONENT development)
install(TARGETS bochner_static EXPORT bochnerStaticTargets ARCHIVE COMPONENT development)
if(BOCHNER_STRIP AND CMAKE_STRIP) # install() does not strip archives; the linker needs their symbols
  install(CODE "execute_process(COMMAND \"${CMAKE_STRIP}\" --strip-debug \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/\
${CMAKE_INSTALL_LIBDIR}/libbochner.a\")" COMPONENT development)
endif()
install(DIRECTORY include/bochner DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
        FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(TARGETS bochner RUNTIME COMPONENT program)
install(TARGETS bochner-lab RUNTIME COMPONENT lab)
install(TARGETS bochner-bench RUNTIME COMPONENT bench)
if(BOCHNER_HAVE_MPI)
  install(TARGETS bochner_mpi LIBRARY DESTINATION ${BOCHNER_PLUGIN_DIR} COMPONENT mpi)
endif()

if(BOCHNER_HAVE_CUDA)
  install(TARGETS bochner_cuda LIBRARY DESTINATION ${BOCHNER_PLUGIN_DIR} COMPONENT cuda OPTIONAL)
endif()

install(EXPORT bochnerTargets NAMESPACE bochner:: DESTINATION ${BOCHNER_CMAKE_DIR} COMPONENT development)
install(EXPORT bochnerStaticTargets NAMESPACE bochner:: DESTINATION ${BOCHNER_CMAKE_DIR} COMPONENT development)
configure_package_config_file(cmake/bochnerConfig.cmake.in bochnerConfig.cmake INSTALL_DESTINATION
                              ${BOCHNER_CMAKE_DIR})
write_basic_package_version_file(bochnerConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/bochnerConfig.cmake ${PROJECT_BINARY_DIR}/bochnerConfigVersion.cmake
        DESTINATION ${BOCHNER_CMAKE_DIR} COMPONENT development)

# The prefix in bochner.pc is relative to the file, so that the tree is relocatable and DESTDIR works.
file(RELATIVE_PATH BOCHNER_PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" BOCHNER_PC_PREFIX "${BOCHNER_PC_PREFIX}")
list(TRANSFORM BOCHNER_PART_NAMES PREPEND "-l" OUTPUT_VARIABLE BOCHNER_PC_PRIVATE)
string(REPLACE ";" " " BOCHNER_PC_PRIVATE "${BOCHNER_PC_PRIVATE}")
configure_file(cmake/bochner.pc.in bochner.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/bochner.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)

# The programs generate their manual pages and the completion scripts of shells from their option tables; bochner requests
# the parts of the other programs from them. Under an emulator it runs them through scripts.
set(BOCHNER_RUN ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:bochner>)
if(CMAKE_CROSSCOMPILING_EMULATOR)
  string(REPLACE ";" "' '" BOCHNER_EMULATED "'${CMAKE_CROSSCOMPILING_EMULATOR}'")
  foreach(name bochner bochner-lab bochner-bench)
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/emulated/${name}
         CONTENT "#!/bin/sh\nexec ${BOCHNER_EMULATED} '${PROJECT_BINARY_DIR}/${name}' \"$@\"\n")
    file(CHMOD ${PROJECT_BINARY_DIR}/emulated/${name}
         PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE)
  endforeach()
  set(BOCHNER_EMULATED_ENVIRONMENT BOCHNER_PROGRAM=${PROJECT_BINARY_DIR}/emulated/bochner
      BOCHNER_LAB=${PROJECT_BINARY_DIR}/emulated/bochner-lab BOCHNER_BENCH=${PROJECT_BINARY_DIR}/emulated/bochner-bench)
  set(BOCHNER_RUN env ${BOCHNER_EMULATED_ENVIRONMENT} ${BOCHNER_RUN})
endif()
add_custom_command(OUTPUT bochner.1
                   COMMAND sh -c "\"$@\" help --man <\"$0\" >bochner.1"
                           ${PROJECT_SOURCE_DIR}/cmake/bochner.1.in ${BOCHNER_RUN}
                   DEPENDS bochner cmake/bochner.1.in VERBATIM)
foreach(command lab bench)
  add_custom_command(OUTPUT bochner-${command}.1
                     COMMAND sh -c "\"$@\" --describe man <\"$0\" >bochner-${command}.1"
                             ${PROJECT_SOURCE_DIR}/cmake/bochner-${command}.1.in
                             ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:bochner-${command}>
                     DEPENDS bochner-${command} cmake/bochner-${command}.1.in VERBATIM)
  install(FILES ${PROJECT_BINARY_DIR}/bochner-${command}.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
          COMPONENT ${command})
endforeach()
foreach(shell bash zsh fish)
  add_custom_command(OUTPUT bochner.${shell}
                     COMMAND sh -c "\"$@\" completion $0 >bochner.$0" ${shell} ${BOCHNER_RUN}
                     DEPENDS bochner bochner-lab bochner-bench VERBATIM)
endforeach()
add_custom_target(manual ALL DEPENDS bochner.1 bochner-lab.1 bochner-bench.1 bochner.bash bochner.zsh bochner.fish)
add_dependencies(product manual)
install(FILES ${PROJECT_BINARY_DIR}/bochner.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
install(FILES ${PROJECT_BINARY_DIR}/bochner.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
        RENAME bochner COMPONENT program)
install(FILES ${PROJECT_BINARY_DIR}/bochner.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions
        RENAME _bochner COMPONENT program)
install(FILES ${PROJECT_BINARY_DIR}/bochner.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d
        COMPONENT program)

if(BOCHNER_ON_TOP)
  foreach(component ${BOCHNER_COMPONENTS})
    install(CODE "note_files()" COMPONENT ${component})
  endforeach()
endif()
