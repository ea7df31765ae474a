// For fuzz targets: what must hold for every input there is.
#pragma once

#include <cstdio>
#include <cstdlib>

// Ends the program, which makes libFuzzer keep the input that did it.
#define HR_EXPECT(condition)                                                                   \
  do {                                                                                         \
    if (!(condition)) {                                                                        \
      std::fprintf(stderr, "%s:%d: this does not hold: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                            \
    }                                                                                          \
  } while (false)
