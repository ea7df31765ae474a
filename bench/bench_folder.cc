// The folder store against the bare system calls that it cannot do without, in turns in one run.
//
//   bench_folder [--folder DIR] [--creates N] [--json]
//
// Reads: Get and one pass of CRC32C over the bytes, against open + fstat + mmap + the same pass + munmap, all from the page cache.
// Creates: PutIfAbsent of small objects, against open + write + fsync + close + link + fsync of the folder.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "base/random.h"
#include "base/text.h"
#include "store/folder_store.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;

const Deadline kNever;

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "bench_folder: %s\n", what.c_str());
  std::exit(1);
}

void Check(bool done, const char* what) {
  if (!done) Fail(Cat(what, ": ", std::strerror(errno)));
}

double Seconds(const std::function<void()>& work) {
  const Instant start = RealClock().Now();
  work();
  return std::chrono::duration<double>(RealClock().Now() - start).count();
}

struct Comparison {
  std::string what;
  double ours;  // a second
  double baseline;  // a second
  double target;
  const char* unit;

  double ratio() const { return ours / baseline; }
};

// From the page cache everything is work of this thread: its own time is not disturbed by what else the machine does.
double CpuSeconds(const std::function<void()>& work) {
  auto now = [] {
    timespec time;
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  };
  const double start = now();
  work();
  return now() - start;
}

// Both sides in turns, so that a cold cache or a slow moment falls on both: the median of each.
std::pair<double, double> MedianTurns(int turns, const std::function<void()>& ours, const std::function<void()>& baseline) {
  std::vector<double> mine, bare;
  for (int turn = 0; turn < turns; ++turn) {
    for (int side = 0; side < 2; ++side) {
      bool is_mine = (turn + side) % 2 == 0;
      (is_mine ? mine : bare).push_back(CpuSeconds(is_mine ? ours : baseline));
    }
  }
  auto median = [](std::vector<double>& all) {
    std::ranges::nth_element(all, all.begin() + static_cast<ptrdiff_t>(all.size() / 2));
    return all[all.size() / 2];
  };
  return {median(mine), median(bare)};
}

Comparison CompareReads(const std::string& root, uint64_t size) {
  const uint64_t count = std::clamp<uint64_t>((16 << 20) / size, 1, 1000);
  FolderStore store(root, {.sync = false});  // for reads it makes no difference
  Random random(size);
  std::string body(size, '\0');
  for (size_t i = 0; i + 8 <= size; i += 8) {
    uint64_t value = random.Next();
    std::memcpy(body.data() + i, &value, 8);
  }
  const Body shared(std::move(body));
  std::vector<std::string> keys;
  for (uint64_t i = 0; i < count; ++i) {
    keys.push_back(Cat("read/", size, "/", i));
    if (Status put = store.Put(keys.back(), shared, kNever); !put.ok()) Fail(put.message());
  }
  uint32_t sum_ours = 0, sum_baseline = 0;
  auto ours = [&] {
    sum_ours = 0;
    for (const std::string& key : keys) {
      auto object = store.Get(key, kNever);
      if (!object.ok() || !object->has_value()) Fail(Cat("cannot read ", key, ": ", object.status().message()));
      sum_ours ^= Crc32c((*object)->bytes.span());
    }
  };
  auto baseline = [&] {
    sum_baseline = 0;
    for (const std::string& key : keys) {
      int file = ::open(Cat(root, "/", key).c_str(), O_RDONLY | O_CLOEXEC);
      Check(file >= 0, "open");
      struct stat about;
      Check(::fstat(file, &about) == 0, "fstat");
      void* memory = ::mmap(nullptr, about.st_size, PROT_READ, MAP_SHARED, file, 0);
      Check(memory != MAP_FAILED, "mmap");
      ::close(file);
      sum_baseline ^= Crc32c({static_cast<const std::byte*>(memory), static_cast<size_t>(about.st_size)});
      ::munmap(memory, about.st_size);
    }
  };
  auto [seconds, bare] = MedianTurns(51, ours, baseline);
  if (sum_ours != sum_baseline) Fail("the two sides have read different bytes");
  if (Status gone = store.Delete(keys, kNever); !gone.ok()) Fail(gone.message());
  const double bytes = static_cast<double>(size * count) / 1e9;
  std::string name = size >= 1 << 20 ? Cat(size >> 20, " MiB") : Cat(size >> 10, " KiB");
  return {Cat("reads of ", name), bytes / seconds, bytes / bare, 0.9, "GB per CPU second"};
}

Comparison CompareCreates(const std::string& root, int creates) {
  constexpr int kBlock = 100;
  FolderStore store(Cat(root, "/ours"));
  const fs::path bare = fs::path(root) / "bare";
  fs::create_directories(bare / "tmp");
  fs::create_directories(bare / "log");
  int folder = ::open((bare / "log").c_str(), O_RDONLY | O_DIRECTORY);
  Check(folder >= 0, "open");
  const std::string body(256, 'x');
  auto digits = [](int i) { return Cat(std::string(20 - Cat(i).size(), '0'), i); };
  auto ours = [&](int first) {
    for (int i = first; i < first + kBlock; ++i) {
      auto outcome = store.PutIfAbsent(Cat("log/", digits(i)), body, kNever);
      if (!outcome.ok() || outcome->kind != PutOutcome::kCreated) Fail(Cat("cannot create: ", outcome.status().message()));
    }
  };
  auto baseline = [&](int first) {
    for (int i = first; i < first + kBlock; ++i) {
      const std::string temporary = Cat(bare.string(), "/tmp/", i), name = Cat(bare.string(), "/log/", digits(i));
      int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      Check(file >= 0, "open");
      Check(::write(file, body.data(), body.size()) == static_cast<ssize_t>(body.size()), "write");
      Check(::fsync(file) == 0, "fsync");
      ::close(file);
      Check(::link(temporary.c_str(), name.c_str()) == 0, "link");
      Check(::fsync(folder) == 0, "fsync");
    }
  };
  // All turns count: each file is created once, and the disk has good and bad moments that fall on both sides.
  double seconds = 0, bare_seconds = 0;
  for (int first = 0, turn = 0; first < creates; first += kBlock, ++turn) {
    for (int side = 0; side < 2; ++side) {
      bool mine = (turn + side) % 2 == 0;
      (mine ? seconds : bare_seconds) += Seconds([&] { mine ? ours(first) : baseline(first); });
    }
  }
  ::close(folder);
  const int done = (creates + kBlock - 1) / kBlock * kBlock;
  return {Cat(done, " small creates"), done / seconds, done / bare_seconds, 0.7, "a second"};
}

int Run(const std::string& parent, int creates, bool json) {
  const fs::path root = fs::path(parent) / Cat("bench_folder-", Random::FromEntropy().Hex(16));
  fs::create_directories(root);
  std::vector<Comparison> all;
  for (uint64_t size : {4 << 10, 64 << 10, 256 << 10, 1 << 20, 16 << 20, 64 << 20})
    all.push_back(CompareReads(root.string(), size));
  all.push_back(CompareCreates(root.string(), creates));
  fs::remove_all(root);

  if (json) {
    std::string text = "[";
    for (const Comparison& one : all) {
      text +=
          Cat(text.size() > 1 ? ",\n " : "", "{\"what\": \"", one.what, "\", \"ours\": ", Fixed(one.ours, 2),
              ", \"baseline\": ", Fixed(one.baseline, 2), ", \"unit\": \"", one.unit, "\", \"ratio\": ", Fixed(one.ratio(), 3),
              ", \"target\": ", Fixed(one.target, 2), ", \"met\": ", one.ratio() >= one.target, "}");
    }
    std::printf("%s]\n", text.c_str());
    return 0;
  }
  std::printf("%-24s %12s %12s %8s %8s\n", "", "Headrace", "bare calls", "ratio", "target");
  for (const Comparison& one : all) {
    std::printf("%-24s %12s %12s %8s %8s  %s%s\n", one.what.c_str(), Fixed(one.ours, 2).c_str(), Fixed(one.baseline, 2).c_str(),
                Fixed(one.ratio(), 2).c_str(), Fixed(one.target, 2).c_str(), one.unit,
                one.ratio() >= one.target ? "" : "  MISSED");
  }
  return 0;
}

}  // namespace
}  // namespace headrace

int main(int count, char** words) {
  std::string folder = std::filesystem::temp_directory_path().string();
  uint64_t creates = 10000;
  bool json = false;
  for (int i = 1; i < count; ++i) {
    std::string_view word = words[i];
    if (word == "--json") {
      json = true;
    } else if (word == "--folder" && i + 1 < count) {
      folder = words[++i];
    } else if (word == "--creates" && i + 1 < count && headrace::ParseNumber(words[i + 1], creates) && creates < 10000000) {
      ++i;
    } else {
      std::fprintf(stderr, "usage: bench_folder [--folder DIR] [--creates N] [--json]\n");
      return 2;
    }
  }
  return headrace::Run(folder, static_cast<int>(creates), json);
}
