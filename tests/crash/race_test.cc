// Processes race for the same keys, and some are killed in the middle of it: one winner for each key, and its bytes whole.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <new>

#include "base/text.h"
#include "scratch.h"
#include "store/folder_store.h"

namespace headrace {
namespace {

constexpr int kKeys = 300;
constexpr int kProcesses = 6;
constexpr int kKills = 100;  // then whoever runs may come to its end
const Deadline kNever;

// What the processes tell each other, in memory that outlives them.
struct Board {
  std::array<std::atomic<int>, kKeys> winners;  // how many were told that they created the key
  std::array<std::atomic<int>, kKeys> winner;   // who
  std::atomic<int> next_key;                    // where newcomers join the race
  std::atomic<int> gate;                        // no key from here on yet: who kills may be slower than who creates
};

std::string KeyOf(int key) { return Cat("race/", key % 7, "/", key); }
std::string BodyOf(int runner, int key) {
  return Cat("runner ", runner, " key ", key, " ", std::string(5000 + runner % 100, static_cast<char>('a' + runner % 26)));
}

// A process that creates key after key until somebody kills it or none is left.
pid_t StartRunner(const std::string& root, Board& board, int runner) {
  pid_t process = ::fork();
  if (process != 0) return process;
  {
    FolderStore store(root);
    for (int key = board.next_key; key < kKeys; ++key) {
      while (key >= board.gate) ::usleep(100);
      auto outcome = store.PutIfAbsent(KeyOf(key), BodyOf(runner, key), kNever);
      if (!outcome.ok() || outcome->kind == PutOutcome::kUnknown) ::_exit(1);
      if (outcome->kind == PutOutcome::kCreated) {
        // In this order: whoever is killed between the two has not told anybody yet.
        board.winner[key] = runner;
        ++board.winners[key];
      }
      int seen = board.next_key;
      while (seen < key && !board.next_key.compare_exchange_weak(seen, key)) {
      }
    }
  }
  ::_exit(0);
}

TEST(Race, ProcessesThatAreKilledLeaveOneWinnerForEachKey) {
  const char* given = std::getenv("HEADRACE_SEED");
  const uint64_t seed = given ? std::strtoull(given, nullptr, 10) : Random::FromEntropy().Next() % 1000000;
  SCOPED_TRACE(Cat("HEADRACE_SEED=", seed));
  Random random(seed);
  ScratchFolder scratch;
  const std::string root = scratch.Below("root");
  void* shared = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  Board& board = *new (shared) Board{};

  std::vector<pid_t> running;
  int runner = 0, killed = 0;
  // It stays shut before the last keys until the last kill: so nobody comes to an end before that.
  const auto open_gate = [&] { board.gate = (killed + 1) * kKeys / (kKills + 1); };
  open_gate();
  for (; runner < kProcesses; ++runner) running.push_back(StartRunner(root, board, runner));
  while (!running.empty()) {
    // Real processes on a real disk: a moment of real time is part of the dice.
    ::usleep(static_cast<useconds_t>(random.Below(3000)));
    const size_t victim = random.Below(running.size());
    int status = 0;
    if (::waitpid(running[victim], &status, WNOHANG) == 0) {
      if (killed == kKills) continue;
      ::kill(running[victim], SIGKILL);
      ASSERT_EQ(::waitpid(running[victim], &status, 0), running[victim]);
    }
    if (WIFSIGNALED(status)) {
      ++killed;
      open_gate();
      running[victim] = StartRunner(root, board, runner++);
    } else {
      EXPECT_EQ(WEXITSTATUS(status), 0) << "a runner got an error";
      running.erase(running.begin() + victim);
    }
  }
  EXPECT_EQ(killed, kKills);

  FolderStore store(root);
  int known = 0;
  for (int key = 0; key < kKeys; ++key) {
    EXPECT_LE(board.winners[key], 1) << KeyOf(key) << " was created more than once";
    known += board.winners[key];
    auto object = store.Get(KeyOf(key), kNever);
    ASSERT_TRUE(object.ok() && object->has_value()) << KeyOf(key) << " is missing: somebody was told that it exists";
    std::string text = (*object)->bytes.ToString();
    // Whoever it was, it is one body from end to end.
    int writer = std::atoi(text.c_str() + std::string_view("runner ").size());
    EXPECT_EQ(text, BodyOf(writer, key));
    EXPECT_TRUE(board.winners[key] == 0 || board.winner[key] == writer)
        << KeyOf(key) << " holds the bytes of one who did not win";
  }
  EXPECT_GT(known, 0) << "some winners must have lived to tell";
  auto listed = ListAll(store, "", kNever);
  ASSERT_TRUE(listed.ok());
  EXPECT_EQ(listed->size(), static_cast<size_t>(kKeys));
  ::munmap(shared, sizeof(Board));
}

}  // namespace
}  // namespace headrace
