// A machine whose calendar jumps by hours and days: preloaded into a command by test_clock_jumps.py.
//
// JUMPING_CLOCK=jump: another offset every 20 ms, forwards and backwards; a number: so many seconds off, always. The steady clock stays as it
// is: the kernel promises that it does.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long Offset(long milliseconds) {
  static const long kJumps[] = {0, 7200, -259200, 34560000, -1, 86400, -31536000};
  const char* how = getenv("JUMPING_CLOCK");
  if (how == NULL) return 0;
  if (strcmp(how, "jump") != 0) return atol(how);
  return kJumps[(uint64_t)(milliseconds / 20) * 2654435761u % (sizeof(kJumps) / sizeof(kJumps[0]))];
}

int clock_gettime(clockid_t id, struct timespec* time) {
  int failed = (int)syscall(SYS_clock_gettime, id, time);
  if (!failed && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
    time->tv_sec += Offset(time->tv_sec % 1000000 * 1000 + time->tv_nsec / 1000000);
  return failed;
}

int gettimeofday(struct timeval* time, void* zone) {
  (void)zone;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != NULL) *out = now.tv_sec;
  return now.tv_sec;
}
