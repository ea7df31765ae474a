// The fuzz targets without a fuzzer: every seed of the corpus, and what cutting, flipping and repeating makes of it.
//
// A target ends the program if a promise does not hold; its last words name the input that did it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/text.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

#define HR_FUZZ_TARGET(name) extern "C" int Replay_##name(const uint8_t* data, size_t size);
#include "targets.inc"
#undef HR_FUZZ_TARGET

namespace headrace {
namespace {

using Target = int (*)(const uint8_t*, size_t);

struct Seed {
  std::string name;
  std::string bytes;
};

std::vector<Seed> Corpus(const std::string& name) {
  std::vector<Seed> seeds;
  std::filesystem::path folder = std::filesystem::path(HEADRACE_CORPUS) / name;
  if (!std::filesystem::exists(folder)) return seeds;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    seeds.push_back({entry.path().filename(), std::string(std::istreambuf_iterator<char>(file), {})});
  }
  std::ranges::sort(seeds, {}, &Seed::name);
  return seeds;
}

// What is being fed, for the last words of a program that a target has ended.
std::string g_input;

void NameTheInput() { (void)!write(STDERR_FILENO, g_input.data(), g_input.size()); }

void Feed(Target target, const std::string& input, const std::string& what) {
  g_input = Cat("the input was ", what, ", percent-encoded: ", PercentEncode(input), "\n");
  // A copy of exactly this size, so that a sanitizer sees a read beyond its end.
  auto bytes = std::make_unique<uint8_t[]>(input.size());
  std::ranges::copy(input, bytes.get());
  EXPECT_EQ(target(bytes.get(), input.size()), 0) << what;
}

std::string Damage(std::string bytes, Random& random) {
  size_t at = random.Below(bytes.size() + 1);
  switch (random.Below(5)) {
    case 0: bytes.resize(at); break;
    case 1: bytes.erase(0, at); break;
    case 2: bytes.insert(at, 1 + random.Below(4), static_cast<char>(random.Next())); break;
    case 3: bytes += bytes.substr(at); break;
    default:
      if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.Below(8)));
  }
  return bytes;
}

void RunTarget(const std::string& name, Target target) {
  std::vector<Seed> seeds = Corpus(name);
  ASSERT_FALSE(seeds.empty()) << "tests/fuzz/corpus/" << name << " has no seeds";
  std::signal(SIGABRT, [](int) { NameTheInput(); });
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_set_death_callback(NameTheInput);
#endif
  Feed(target, "", "nothing");
  Random random = Random(1).Fork(name);
  for (const Seed& seed : seeds) {
    Feed(target, seed.bytes, seed.name);
    for (int i = 0; i < 200; ++i) {
      std::string damaged = seed.bytes;
      for (int times = 0; times <= i % 4; ++times) damaged = Damage(damaged, random);
      Feed(target, damaged, Cat(seed.name, ", damaged ", i));
    }
  }
}

#define HR_FUZZ_TARGET(name) \
  TEST(FuzzReplay, name) { RunTarget(#name, &Replay_##name); }
#include "targets.inc"

}  // namespace
}  // namespace headrace
