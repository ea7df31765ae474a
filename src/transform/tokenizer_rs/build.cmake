# Makes ${OUTPUT}: the crate by cargo, or, where that cannot be (no cargo, no network and nothing cached), the stand-in absent.cpp.
cmake_minimum_required(VERSION 3.22)

set(built FALSE)
if(CARGO AND NOT MODE STREQUAL "OFF")
  # RUSTFLAGS and the like of the environment count; a network that is not there is given up soon.
  execute_process(COMMAND ${CMAKE_COMMAND} -E env CARGO_NET_RETRY=1 CARGO_HTTP_TIMEOUT=20 ${CARGO} build --release --locked --quiet
                          --manifest-path ${SOURCE}/Cargo.toml --target-dir ${CARGO_DIR}
                  RESULT_VARIABLE status ERROR_VARIABLE errors OUTPUT_VARIABLE output)
  if(status EQUAL 0 AND EXISTS ${CARGO_DIR}/release/libheadrace_tokenizer.a)
    file(COPY_FILE ${CARGO_DIR}/release/libheadrace_tokenizer.a ${OUTPUT})
    set(built TRUE)
  else()
    string(STRIP "${errors}" errors)
    string(REGEX REPLACE "\n.*" "" first "${errors}")
    if(MODE STREQUAL "ON")
      message(FATAL_ERROR "cargo could not build the tokenizer:\n${errors}")
    endif()
    message(STATUS "Tokenizing will happen in worker processes: cargo could not build the crate (${first})")
  endif()
elseif(NOT MODE STREQUAL "OFF")
  message(STATUS "Tokenizing will happen in worker processes: there is no cargo to build the crate")
endif()

if(NOT built)
  file(REMOVE ${OUTPUT})
  execute_process(COMMAND ${CXX} -std=c++20 -O2 -fPIC -c ${SOURCE}/absent.cpp -o ${OUTPUT}.o COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${AR} rcs ${OUTPUT} ${OUTPUT}.o COMMAND_ERROR_IS_FATAL ANY)
endif()
# Older than its sources otherwise, and made again each time.
file(TOUCH ${OUTPUT})
