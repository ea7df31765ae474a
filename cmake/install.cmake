# What goes where: the command and the extension module (component `command`, all that a Python wheel takes), and for C++ programs the headers of
# include/headrace, the static libraries and a CMake package (component `development`):
#
#   find_package(headrace REQUIRED)
#   target_link_libraries(mine PRIVATE headrace::store)

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# In a wheel the command goes where pip puts programs: the bin folder of the virtual environment.
if(SKBUILD)
  set(HEADRACE_COMMAND_DIR ${SKBUILD_SCRIPTS_DIR})
  set(HEADRACE_PYTHON_DIR headrace)
else()
  set(HEADRACE_COMMAND_DIR ${CMAKE_INSTALL_BINDIR})
  set(HEADRACE_PYTHON_DIR ${CMAKE_INSTALL_LIBDIR}/python/headrace)
endif()

set(HEADRACE_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/headrace)
install(DIRECTORY include/headrace DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development FILES_MATCHING PATTERN "*.h")
install(EXPORT headrace NAMESPACE headrace:: FILE headraceTargets.cmake DESTINATION ${HEADRACE_PACKAGE_DIR} COMPONENT development)
configure_package_config_file(cmake/headraceConfig.cmake.in ${CMAKE_BINARY_DIR}/headraceConfig.cmake
                              INSTALL_DESTINATION ${HEADRACE_PACKAGE_DIR})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/headraceConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/headraceConfig.cmake ${CMAKE_BINARY_DIR}/headraceConfigVersion.cmake
        DESTINATION ${HEADRACE_PACKAGE_DIR} COMPONENT development)
