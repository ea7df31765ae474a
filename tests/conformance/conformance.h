// What the cases of the suite have in common: an empty store of the backend under test, and short words for what they do with it.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends.h"
#include "headrace/store.h"

namespace headrace {

class StoreConformance : public testing::TestWithParam<Backend> {
 protected:
  void SetUp() override;
  void TearDown() override;

  ObjectStore& store() { return *opened_.store; }

  // They report what goes wrong as a failure of the case.
  void Put(const std::string& key, const Body& body);
  PutOutcome::Kind Create(const std::string& key, const Body& body);
  std::optional<std::string> Get(const std::string& key, ByteRange range = {});
  void Delete(const std::vector<std::string>& keys);
  // Every key of every page, sorted. Fails if a page is longer than its limit or a key comes twice.
  std::vector<std::string> List(ListOptions options);
  std::vector<std::string> List(const std::string& prefix = "") { return List(ListOptions{.prefix = prefix}); }
  // Objects that hold their own key, made by several threads: a network has latency.
  void PutEach(const std::vector<std::string>& keys);

 private:
  OpenedBackend opened_;
};

// Far enough for the slowest machine.
Deadline Soon();

// `body(0)` to `body(count - 1)` at the same time, each on a thread of its own.
void AtOnce(int count, const std::function<void(int)>& body);

// {"prefix000", "prefix001", …}
std::vector<std::string> Numbered(const std::string& prefix, int count);

// Bytes that are the same for the same seed, and hard to get right by accident.
Bytes Noise(size_t size, uint64_t seed = 1);

// "" if they are equal, else where the first difference is: a failure that prints megabytes helps nobody.
std::string WhereDifferent(std::span<const std::byte> got, std::span<const std::byte> expected);

}  // namespace headrace
