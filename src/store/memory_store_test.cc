#include "store/memory_store.h"

#include <gtest/gtest.h>

#include "base/simulation.h"

namespace headrace {
namespace {

const Deadline kNever;

TEST(MemoryStore, KeepsACopyOfWhatWasLent) {
  MemoryStore store;
  std::string mine = "as written";
  ASSERT_TRUE(store.Put("a", Bytes::Borrow(std::as_bytes(std::span(mine))), kNever).ok());
  mine = "as changed";
  EXPECT_EQ((**store.Get("a", kNever)).bytes.AsText(), "as written");
}

TEST(MemoryStore, ReadBytesOutliveTheKeyAndTheStore) {
  auto store = std::make_unique<MemoryStore>();
  ASSERT_TRUE(store->Put("a", std::string("old"), kNever).ok());
  Bytes held = (**store->Get("a", kNever)).bytes;
  ASSERT_TRUE(store->Put("a", std::string("new"), kNever).ok());
  ASSERT_TRUE(store->DeleteOne("a", kNever).ok());
  store.reset();
  EXPECT_EQ(held.AsText(), "old");
}

TEST(MemoryStore, OneNameIsOneStore) {
  auto a = MemoryStore::Named("memory_store_test/a");
  ASSERT_TRUE(a->Put("k", std::string("v"), kNever).ok());
  EXPECT_EQ(MemoryStore::Named("memory_store_test/a"), a);
  EXPECT_FALSE(MemoryStore::Named("memory_store_test/b")->Get("k", kNever)->has_value());
  EXPECT_EQ(a->Describe("k"), "mem://memory_store_test/a/k");
  EXPECT_EQ(a->Describe(), "mem://memory_store_test/a");
}

TEST(MemoryStore, NoKeyIsTheFolderOfAnother) {
  MemoryStore store;
  ASSERT_TRUE(store.Put("a/b", std::string(), kNever).ok());
  EXPECT_EQ(store.PutIfAbsent("a", std::string(), kNever).code(), Code::kInvalidArgument);
  EXPECT_EQ(store.Put("a/b/c", std::string(), kNever).code(), Code::kInvalidArgument);
  EXPECT_TRUE(store.Put("a/bc", std::string(), kNever).ok());
}

TEST(MemoryStore, TimeIsTheClocksThatWasPassedIn) {
  Simulation simulation(1);
  MemoryStore store("", simulation);
  simulation.Run([&] {
    Deadline soon = Deadline::After(simulation, std::chrono::seconds(1));
    EXPECT_TRUE(store.Put("a", std::string(), soon).ok());
    simulation.SleepFor(std::chrono::seconds(2));
    EXPECT_EQ(store.Put("a", std::string("late"), soon).code(), Code::kTimeout);
    EXPECT_EQ((**store.Get("a", kNever)).size, 0u);
  });
}

TEST(MemoryStore, AKilledProcessChangesNothingWhileItIsUnwound) {
  Simulation simulation(1);
  MemoryStore store("", simulation, [&] { return simulation.Unwinding(); });
  struct Farewell {
    MemoryStore& store;
    ~Farewell() { EXPECT_EQ(store.Put("farewell", std::string(), Deadline()).code(), Code::kCancelled); }
  };
  auto process = simulation.Start("victim", [&] {
    Farewell farewell{store};
    simulation.SleepFor(std::chrono::hours(1));
  });
  simulation.RunUntil(simulation.Now() + std::chrono::seconds(1));
  simulation.Kill(process);
  simulation.Run();
  EXPECT_FALSE(store.Get("farewell", kNever)->has_value());
}

}  // namespace
}  // namespace headrace
