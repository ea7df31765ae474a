// Objects in parts on real servers: what the scripted ones of the unit tests only claim.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <iostream>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/text.h"
#include "headrace/store.h"

namespace headrace {
namespace {

constexpr size_t kPart = 5 << 20;

struct Server {
  std::string name;
  std::string endpoint;
};

std::vector<Server> FindServers() {
  std::vector<Server> found;
  for (std::string name : {"versitygw", "moto", "minio"}) {
    std::string variable = "HEADRACE_TEST_";
    for (char c : name) variable += static_cast<char>(std::toupper(c));
    const char* endpoint = std::getenv(variable.c_str());
    if (endpoint != nullptr && *endpoint != '\0') {
      found.push_back({name, endpoint});
    } else {
      std::cerr << Cat("LEFT OUT: ", name, " (", variable,
                       " is not set; `python tests/servers.py -- COMMAND` starts and names the servers)\n");
    }
  }
  return found;
}

// Asked for more than once by GoogleTest.
const std::vector<Server>& Servers() {
  static const std::vector<Server> servers = FindServers();
  return servers;
}

void PrintTo(const Server& server, std::ostream* out) { *out << server.name; }

Deadline Soon() { return Deadline::After(RealClock(), std::chrono::minutes(2)); }

// Not the same in any two parts, nor for any two seeds.
Body Noise(size_t size, uint64_t seed) {
  Buffer memory(size);
  Random random(seed);
  for (std::span<std::byte> rest = memory.span(); !rest.empty();) {
    uint64_t word = random.Next();
    size_t count = std::min(rest.size(), sizeof(word));
    std::memcpy(rest.data(), &word, count);
    rest = rest.subspan(count);
  }
  return Body(std::move(memory).Freeze());
}

class Multipart : public ::testing::TestWithParam<Server> {
 protected:
  void SetUp() override {
    auto opened =
        OpenStore(Cat("s3://headrace-test/", Random::FromEntropy().Hex(16), "?endpoint=", PercentEncode(GetParam().endpoint)),
                  {{"multipart_threshold", Cat(kPart)}, {"part_size", Cat(kPart)}});
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    store = *opened;
  }

  void ExpectHolds(const std::string& key, const Body& body) {
    auto object = store->Get(key, Soon());
    ASSERT_TRUE(object.ok() && *object) << object.status().ToString();
    EXPECT_EQ((*object)->size, body.size());
    EXPECT_TRUE(body.Equals((*object)->bytes.span()));
  }

  std::shared_ptr<ObjectStore> store;
};

// A suite of no servers is said above, and is not an error.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Multipart);
INSTANTIATE_TEST_SUITE_P(Every, Multipart, ::testing::ValuesIn(Servers()), [](const auto& one) { return one.param.name; });

TEST_P(Multipart, BytesComeBackAsTheyWere) {
  for (size_t size : {kPart + 1, 2 * kPart, 3 * kPart + 12345}) {
    Body body = Noise(size, size);
    auto outcome = store->PutIfAbsent(Cat("k", size), body, Soon());
    ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
    EXPECT_EQ(outcome->kind, PutOutcome::kCreated) << outcome->reason.ToString();
    ExpectHolds(Cat("k", size), body);
  }
}

TEST_P(Multipart, TakenKeyStaysAsItWas) {
  Body first = Noise(kPart + 1, 1);
  ASSERT_EQ(store->PutIfAbsent("k", first, Soon())->kind, PutOutcome::kCreated);
  auto second = store->PutIfAbsent("k", Noise(2 * kPart, 2), Soon());
  ASSERT_TRUE(second.ok()) << second.status().ToString();
  EXPECT_EQ(second->kind, PutOutcome::kExists);
  ExpectHolds("k", first);
}

TEST_P(Multipart, SmallObjectIsInTheWayOfALargeOne) {
  Body small("small");
  ASSERT_EQ(store->PutIfAbsent("k", small, Soon())->kind, PutOutcome::kCreated);
  EXPECT_EQ(store->PutIfAbsent("k", Noise(2 * kPart, 2), Soon())->kind, PutOutcome::kExists);
  ExpectHolds("k", small);
}

TEST_P(Multipart, PutReplaces) {
  ASSERT_TRUE(store->Put("k", Noise(2 * kPart, 1), Soon()).ok());
  Body second = Noise(2 * kPart + 7, 2);
  Status done = store->Put("k", second, Soon());
  ASSERT_TRUE(done.ok()) << done.ToString();
  ExpectHolds("k", second);
}

TEST_P(Multipart, OneOfManyCreatorsWins) {
  if (GetParam().name == "moto")
    GTEST_SKIP() << "moto looks whether the key is free and completes the upload in two steps: several creators win";
  constexpr int kCreators = 6, kRounds = 4;
  for (int round = 0; round < kRounds; ++round) {
    std::string key = Cat("race/", round);
    std::vector<Body> bodies;
    for (int i = 0; i < kCreators; ++i) bodies.push_back(Noise(kPart + 1000, static_cast<uint64_t>(round * 100 + i)));
    std::vector<Result<PutOutcome>> outcomes(kCreators, Result<PutOutcome>(Status(Code::kInternal, "did not run")));
    {
      std::vector<std::jthread> creators;
      for (int i = 0; i < kCreators; ++i)
        creators.emplace_back([&, i] { outcomes[i] = store->PutIfAbsent(key, bodies[i], Soon()); });
    }
    int winner = -1, created = 0;
    for (int i = 0; i < kCreators; ++i) {
      ASSERT_TRUE(outcomes[i].ok()) << outcomes[i].status().ToString();
      if (outcomes[i]->kind != PutOutcome::kCreated) continue;
      ++created;
      winner = i;
    }
    ASSERT_LE(created, 1) << "round " << round;
    if (winner >= 0) ExpectHolds(key, bodies[winner]);
  }
}

}  // namespace
}  // namespace headrace
