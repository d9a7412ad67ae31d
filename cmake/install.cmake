# What `make install` installs: both libraries, headers, program, man page, pkg-config file, CMake package.
include(CMakePackageConfigHelpers)
set(BOCHNER_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/bochner)

install(TARGETS bochner_shared EXPORT bochnerTargets)
install(TARGETS bochner_static EXPORT bochnerStaticTargets)
install(DIRECTORY include/bochner DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(TARGETS bochner)
if(BOCHNER_HAVE_MPI)
  install(TARGETS bochner_mpi LIBRARY DESTINATION ${BOCHNER_PLUGIN_DIR})
endif()

install(EXPORT bochnerTargets NAMESPACE bochner:: DESTINATION ${BOCHNER_CMAKE_DIR})
install(EXPORT bochnerStaticTargets NAMESPACE bochner:: DESTINATION ${BOCHNER_CMAKE_DIR})
configure_package_config_file(cmake/bochnerConfig.cmake.in bochnerConfig.cmake INSTALL_DESTINATION
                              ${BOCHNER_CMAKE_DIR})
write_basic_package_version_file(bochnerConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/bochnerConfig.cmake ${PROJECT_BINARY_DIR}/bochnerConfigVersion.cmake
        DESTINATION ${BOCHNER_CMAKE_DIR})

# The prefix in bochner.pc is relative to the file itself, so that the tree may be moved and DESTDIR works.
file(RELATIVE_PATH BOCHNER_PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" BOCHNER_PC_PREFIX "${BOCHNER_PC_PREFIX}")
list(TRANSFORM BOCHNER_PART_NAMES PREPEND "-l" OUTPUT_VARIABLE BOCHNER_PC_PRIVATE)
string(REPLACE ";" " " BOCHNER_PC_PRIVATE "${BOCHNER_PC_PRIVATE}")
configure_file(cmake/bochner.pc.in bochner.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/bochner.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# The manual page has its options from the program.
add_custom_command(OUTPUT bochner.1
                   COMMAND sh -c "\"$0\" help --man <\"$1\" >bochner.1" $<TARGET_FILE:bochner>
                           ${PROJECT_SOURCE_DIR}/cmake/bochner.1.in
                   DEPENDS bochner cmake/bochner.1.in VERBATIM)
add_custom_target(manual ALL DEPENDS bochner.1)
add_dependencies(product manual)
install(FILES ${PROJECT_BINARY_DIR}/bochner.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
