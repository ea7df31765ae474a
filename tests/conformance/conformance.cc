#include "conformance.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <thread>

#include "base/random.h"
#include "base/text.h"

namespace headrace {

INSTANTIATE_TEST_SUITE_P(Every, StoreConformance, testing::ValuesIn(Backends()),
                         [](const testing::TestParamInfo<Backend>& tested) { return tested.param.name; });

void StoreConformance::SetUp() {
  opened_ = GetParam().open();
  ASSERT_NE(opened_.store, nullptr);
}

void StoreConformance::TearDown() {
  opened_.store.reset();
  opened_.remove();
}

void StoreConformance::Put(const std::string& key, const Body& body) {
  Status status = store().Put(key, body, Soon());
  EXPECT_TRUE(status.ok()) << status.ToString();
}

PutOutcome::Kind StoreConformance::Create(const std::string& key, const Body& body) {
  Result<PutOutcome> outcome = store().PutIfAbsent(key, body, Soon());
  if (!outcome.ok()) {
    ADD_FAILURE() << outcome.status().ToString();
    return PutOutcome::kUnknown;
  }
  EXPECT_TRUE(outcome->kind != PutOutcome::kUnknown || !outcome->reason.ok()) << "unknown without a reason";
  return outcome->kind;
}

std::optional<std::string> StoreConformance::Get(const std::string& key, ByteRange range) {
  Result<std::optional<Object>> object = store().Get(key, GetOptions{.range = range}, Soon());
  if (!object.ok()) {
    ADD_FAILURE() << object.status().ToString();
    return std::nullopt;
  }
  if (!object->has_value()) return std::nullopt;
  return (*object)->bytes.ToString();
}

void StoreConformance::Delete(const std::vector<std::string>& keys) {
  Status status = store().Delete(keys, Soon());
  EXPECT_TRUE(status.ok()) << status.ToString();
}

std::vector<std::string> StoreConformance::List(ListOptions options) {
  std::set<std::string> keys;
  do {
    Result<ListPage> page = store().List(options, Soon());
    if (!page.ok()) {
      ADD_FAILURE() << page.status().ToString();
      break;
    }
    EXPECT_LE(page->entries.size(), options.limit);
    for (const ListEntry& entry : page->entries) EXPECT_TRUE(keys.insert(entry.key).second) << entry.key << " is listed twice";
    options.page = page->next;
  } while (!options.page.empty());
  return {keys.begin(), keys.end()};
}

void StoreConformance::PutEach(const std::vector<std::string>& keys) {
  constexpr int kThreads = 8;
  AtOnce(kThreads, [&](int thread) {
    for (size_t i = thread; i < keys.size(); i += kThreads) Put(keys[i], keys[i]);
  });
}

Deadline Soon() { return Deadline::After(RealClock(), std::chrono::minutes(2)); }

void AtOnce(int count, const std::function<void(int)>& body) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back([&body, i] { body(i); });
}

std::vector<std::string> Numbered(const std::string& prefix, int count) {
  std::vector<std::string> keys;
  for (int i = 0; i < count; ++i) {
    std::string digits = Cat(i);
    keys.push_back(Cat(prefix, std::string(5 - digits.size(), '0'), digits));
  }
  return keys;
}

Bytes Noise(size_t size, uint64_t seed) {
  Random random(seed);
  Buffer buffer(size);
  std::span<std::byte> left = buffer.span();
  while (!left.empty()) {
    uint64_t value = random.Next();
    size_t count = std::min(left.size(), sizeof(value));
    std::memcpy(left.data(), &value, count);
    left = left.subspan(count);
  }
  return std::move(buffer).Freeze();
}

std::string WhereDifferent(std::span<const std::byte> got, std::span<const std::byte> expected) {
  if (got.size() != expected.size()) return Cat(got.size(), " bytes instead of ", expected.size());
  auto [first, _] = std::ranges::mismatch(got, expected);
  return first == got.end() ? "" : Cat("byte ", first - got.begin(), " of ", got.size(), " is another");
}

}  // namespace headrace
