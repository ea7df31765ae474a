# How a part of the project is built: one static library per folder of src/, its unit tests beside it.

find_program(HEADRACE_CCACHE ccache)
if(HEADRACE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${HEADRACE_CCACHE})
endif()
find_program(HEADRACE_MOLD mold)
if(HEADRACE_MOLD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12.1)
  add_link_options(-fuse-ld=mold)
endif()

add_compile_options(-Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # gcc 12 takes an empty std::optional for an uninitialised value as soon as it inlines enough.
  add_compile_options(-Wno-maybe-uninitialized)
endif()
if(HEADRACE_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "HEADRACE_FUZZ needs clang, for its libFuzzer; `cmake --preset fuzz` finds it")
  endif()
  # Everything that a fuzz target calls tells libFuzzer where it went.
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(HEADRACE_SANITIZE)
  add_compile_options(-fsanitize=${HEADRACE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${HEADRACE_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND HEADRACE_SANITIZE MATCHES "undefined|thread|address")
    # gcc 12 warns about its own standard library when a sanitizer is on.
    add_compile_options(-Wno-maybe-uninitialized -Wno-tsan)
  endif()
endif()

find_package(Threads REQUIRED)
find_package(CURL REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(nlohmann_json REQUIRED)
if(HEADRACE_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
  find_package(rapidcheck REQUIRED)
endif()

# headrace_part(<name> [NO_TSAN] [USES <part>…] [LIBRARIES <target>…])
# The library headrace_<name> from every .cc of this folder and below; the test program <name>_test from every *_test.cc.
# NO_TSAN: it links libraries that are not instrumented and start threads (Arrow), of which ThreadSanitizer would make false reports.
function(headrace_part name)
  cmake_parse_arguments(PART "NO_TSAN" "" "USES;LIBRARIES" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "*.cc")
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  add_library(headrace_${name} STATIC ${sources})
  target_include_directories(headrace_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                                     $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>
                                                     $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  set_target_properties(headrace_${name} PROPERTIES EXPORT_NAME ${name})
  install(TARGETS headrace_${name} EXPORT headrace COMPONENT development)
  list(TRANSFORM PART_USES PREPEND headrace_)
  target_link_libraries(headrace_${name} PUBLIC ${PART_USES} ${PART_LIBRARIES})
  if(HEADRACE_TESTS AND tests)
    set(labels unit threads)
    if(PART_NO_TSAN)
      set(labels unit)
    endif()
    headrace_test(${name}_test SOURCES ${tests} USES headrace_${name} LABELS ${labels})
  endif()
endfunction()

# headrace_test(<name> SOURCES <file>… USES <target>… [LABELS <label>…])
# One GoogleTest program, run by ctest as one test; every test program links GoogleTest's main, and RapidCheck for
# properties (RC_GTEST_PROP). Labels that `make test` knows:
# `threads`: run it under ThreadSanitizer too; `slow`: `make check` leaves it out.
function(headrace_test name)
  cmake_parse_arguments(TEST "" "" "SOURCES;USES;LABELS" ${ARGN})
  add_executable(${name} ${TEST_SOURCES})
  target_link_libraries(${name} PRIVATE ${TEST_USES} GTest::gmock GTest::gtest_main rapidcheck_gtest)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${TEST_LABELS}")
endfunction()

# headrace_fuzz(<name> SOURCES <file>… USES <target>…)
# One libFuzzer program, run by ctest for HEADRACE_FUZZ_SECONDS from the seeds in tests/fuzz/corpus/<name>; what it finds out stays
# in the build folder. Nothing at all without HEADRACE_FUZZ.
set(HEADRACE_FUZZ_SECONDS 10 CACHE STRING "How long ctest lets each fuzz target run")
function(headrace_fuzz name)
  cmake_parse_arguments(FUZZ "" "" "SOURCES;USES" ${ARGN})
  if(NOT HEADRACE_FUZZ)
    return()
  endif()
  add_executable(fuzz_${name} ${FUZZ_SOURCES})
  target_include_directories(fuzz_${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(fuzz_${name} PRIVATE ${FUZZ_USES})
  target_compile_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  set(found ${CMAKE_BINARY_DIR}/corpus/${name})
  set(seeds ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name})
  file(MAKE_DIRECTORY ${found})
  if(NOT EXISTS ${seeds})
    set(seeds "")
  endif()
  add_test(NAME fuzz_${name} COMMAND fuzz_${name} -max_total_time=${HEADRACE_FUZZ_SECONDS} -timeout=120 -print_final_stats=1
                                     -artifact_prefix=${found}- ${found} ${seeds})
  set_tests_properties(fuzz_${name} PROPERTIES LABELS fuzz)
endfunction()
