// Loads an S3 server in one of several ways, and says what that cost; bench_s3.py compares them with each other.
//
//   s3_load fill URI KEY BYTES                            writes the object that the others read
//   s3_load store URI KEY RANGE_BYTES CALLERS SECONDS     range reads through our store, as programs open it
//   s3_load curl URL OBJECT_BYTES RANGE_BYTES CALLERS SECONDS    the same reads by libcurl alone: a thread and a handle for each caller
//   s3_load stream URI KEY RANGE_BYTES CALLERS TOTAL_BYTES BUDGET_BYTES    reads in order into a fixed budget of memory, and checks every byte
//
// Prints one JSON object. The object holds a pattern, so that what comes back can be checked without a second copy.
#include <curl/curl.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/crc32c.h"
#include "base/random.h"
#include "base/size.h"
#include "base/text.h"
#include "headrace/store.h"

namespace headrace {
namespace {

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "s3_load: %s\n", what.c_str());
  std::exit(1);
}

uint64_t Number(const std::string& text) {
  auto size = ParseSize(text);
  if (!size.ok()) Fail(size.status().message());
  return *size;
}

double CpuSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](timeval time) { return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// The most memory that this process ever had resident.
uint64_t PeakBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoull(line.substr(6)) * 1024;
  }
  Fail("/proc/self/status has no VmHWM");
}

std::shared_ptr<ObjectStore> Open(const std::string& uri) {
  auto store = OpenStore(uri);
  if (!store.ok()) Fail(store.status().message());
  return *store;
}

void Print(uint64_t bytes, double seconds, double cpu_seconds) {
  nlohmann::json out{{"bytes", bytes}, {"seconds", seconds}, {"cpu_seconds", cpu_seconds}, {"peak_bytes", PeakBytes()}};
  std::printf("%s\n", out.dump().c_str());
}

// Runs `read(caller, i)` by `callers` threads for `time`, and prints what they got.
void Load(size_t callers, double time, const std::function<uint64_t(size_t caller, uint64_t i)>& read) {
  std::atomic<uint64_t> bytes = 0;
  std::atomic<bool> stop = false;
  double cpu = CpuSeconds();
  Instant start = RealClock().Now();
  std::vector<std::jthread> threads;
  for (size_t caller = 0; caller < callers; ++caller) {
    threads.emplace_back([&, caller] {
      for (uint64_t i = 0; !stop; ++i) bytes += read(caller, i);
    });
  }
  RealClock().SleepFor(std::chrono::duration_cast<Duration>(std::chrono::duration<double>(time)));
  stop = true;
  threads.clear();
  Print(bytes, std::chrono::duration<double>(RealClock().Now() - start).count(), CpuSeconds() - cpu);
}

// Each caller walks through the object from a place of its own.
uint64_t Offset(uint64_t object, uint64_t range, size_t caller, uint64_t i) {
  uint64_t places = std::max<uint64_t>(1, object / range);
  return (caller * 7919 + i) % places * range;
}

void FillObject(const std::string& uri, const std::string& key, uint64_t size) {
  Buffer memory(size);
  Random random(1);
  std::span<std::byte> rest = memory.span();
  while (!rest.empty()) {
    uint64_t word = random.Next();
    size_t count = std::min(rest.size(), sizeof(word));
    std::memcpy(rest.data(), &word, count);
    rest = rest.subspan(count);
  }
  Status done = Open(uri)->Put(key, Body(std::move(memory).Freeze()), Deadline());
  if (!done.ok()) Fail(done.message());
}

uint64_t SizeOf(ObjectStore& store, const std::string& key) {
  auto object = store.Get(key, GetOptions{.range = ByteRange::At(0, 1)}, Deadline());
  if (!object.ok()) Fail(object.status().message());
  if (!*object) Fail(Cat(store.Describe(key), " is not there"));
  return (*object)->size;
}

uint64_t ReadInto(ObjectStore& store, const std::string& key, uint64_t offset, std::span<std::byte> into) {
  auto object = store.Get(key, GetOptions{.range = ByteRange::At(offset, into.size()), .into = into}, Deadline());
  if (!object.ok()) Fail(object.status().message());
  if (!*object) Fail(Cat(store.Describe(key), " is not there"));
  return (*object)->bytes.size();
}

void LoadByStore(const std::string& uri, const std::string& key, uint64_t range, size_t callers, double time) {
  std::shared_ptr<ObjectStore> store = Open(uri);
  uint64_t size = SizeOf(*store, key);
  std::vector<std::vector<std::byte>> memory(callers, std::vector<std::byte>(range));
  Load(callers, time,
       [&](size_t caller, uint64_t i) { return ReadInto(*store, key, Offset(size, range, caller, i), memory[caller]); });
}

struct BareHandle {
  CURL* easy = curl_easy_init();
  std::vector<std::byte> memory;
  size_t received = 0;
};

size_t TakeBytes(char* data, size_t size, size_t count, void* self) {
  auto& handle = *static_cast<BareHandle*>(self);
  if (handle.received + size * count > handle.memory.size()) return 0;
  std::memcpy(handle.memory.data() + handle.received, data, size * count);
  handle.received += size * count;
  return size * count;
}

void LoadByCurl(const std::string& url, uint64_t object, uint64_t range, size_t callers, double time) {
  curl_global_init(CURL_GLOBAL_DEFAULT);
  std::vector<BareHandle> handles(callers);
  for (BareHandle& handle : handles) {
    handle.memory.resize(range);
    auto set = [&](CURLoption option, auto value) { curl_easy_setopt(handle.easy, option, value); };
    set(CURLOPT_URL, url.c_str());
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    set(CURLOPT_BUFFERSIZE, 256L << 10);
    set(CURLOPT_FAILONERROR, 1L);
    set(CURLOPT_WRITEFUNCTION, &TakeBytes);
    set(CURLOPT_WRITEDATA, static_cast<void*>(&handle));
  }
  Load(callers, time, [&](size_t caller, uint64_t i) {
    BareHandle& handle = handles[caller];
    handle.received = 0;
    uint64_t offset = Offset(object, range, caller, i);
    std::string bytes = Cat(offset, '-', offset + range - 1);
    curl_easy_setopt(handle.easy, CURLOPT_RANGE, bytes.c_str());
    CURLcode code = curl_easy_perform(handle.easy);
    if (code != CURLE_OK) Fail(curl_easy_strerror(code));
    return handle.received;
  });
  for (BareHandle& handle : handles) curl_easy_cleanup(handle.easy);
}

// Callers fetch ranges in order into buffers that together are the budget; one consumer takes them in order and gives them back.
void Stream(const std::string& uri, const std::string& key, uint64_t range, size_t callers, uint64_t total, uint64_t budget) {
  std::shared_ptr<ObjectStore> store = Open(uri);
  uint64_t size = SizeOf(*store, key);
  size_t slots = std::max<uint64_t>(1, budget / range);
  std::vector<std::vector<std::byte>> memory(slots, std::vector<std::byte>(range));
  std::vector<uint32_t> expected;  // of each range of the object, filled in the first time through
  uint64_t ranges = total / range, places = std::max<uint64_t>(1, size / range);
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t next = 0, consumed = 0;  // guarded by `mutex`
  std::vector<bool> full(slots);
  double cpu = CpuSeconds();
  Instant start = RealClock().Now();
  std::vector<std::jthread> threads;
  for (size_t caller = 0; caller < callers; ++caller) {
    threads.emplace_back([&] {
      while (true) {
        uint64_t mine;
        {
          std::unique_lock lock(mutex);
          if (next == ranges) return;
          mine = next++;
          changed.wait(lock, [&] { return mine < consumed + slots; });
        }
        if (ReadInto(*store, key, mine % places * range, memory[mine % slots]) != range) Fail("a short read");
        std::lock_guard lock(mutex);
        full[mine % slots] = true;
        changed.notify_all();
      }
    });
  }
  for (uint64_t i = 0; i < ranges; ++i) {
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return full[i % slots]; });
    }
    uint32_t crc = Crc32c(memory[i % slots]);
    if (i < places) expected.push_back(crc);
    if (crc != expected[i % places]) Fail(Cat("range ", i, " differs from the time before"));
    std::lock_guard lock(mutex);
    full[i % slots] = false;
    ++consumed;
    changed.notify_all();
  }
  threads.clear();
  Print(ranges * range, std::chrono::duration<double>(RealClock().Now() - start).count(), CpuSeconds() - cpu);
}

int Main(const std::vector<std::string>& words) {
  auto is = [&](std::string_view name, size_t count) { return words.size() == count + 1 && words[0] == name; };
  if (is("fill", 3)) {
    FillObject(words[1], words[2], Number(words[3]));
  } else if (is("store", 5)) {
    LoadByStore(words[1], words[2], Number(words[3]), Number(words[4]), std::stod(words[5]));
  } else if (is("curl", 5)) {
    LoadByCurl(words[1], Number(words[2]), Number(words[3]), Number(words[4]), std::stod(words[5]));
  } else if (is("stream", 6)) {
    Stream(words[1], words[2], Number(words[3]), Number(words[4]), Number(words[5]), Number(words[6]));
  } else {
    std::fprintf(stderr, "usage: s3_load fill|store|curl|stream …; the head of bench/s3_load.cc says what each wants\n");
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace headrace

int main(int count, char** words) { return headrace::Main(std::vector<std::string>(words + 1, words + count)); }
