# The newest clang++ of this machine, whatever its package calls it (Debian has clang++-14 and no clang++).
find_program(HEADRACE_CLANGXX
             NAMES clang++ clang++-22 clang++-21 clang++-20 clang++-19 clang++-18 clang++-17 clang++-16 clang++-15 clang++-14)
if(NOT HEADRACE_CLANGXX)
  message(FATAL_ERROR "The preset `fuzz` needs clang with libFuzzer, and there is no clang++ here; `scripts/setup test` installs it")
endif()
set(CMAKE_CXX_COMPILER ${HEADRACE_CLANGXX})
