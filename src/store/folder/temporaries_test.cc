#include "store/folder/temporaries.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "base/random.h"
#include "base/text.h"
#include "store/folder/faulty_syscalls.h"
#include "store/folder_store.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;

class TemporariesTest : public testing::Test {
 protected:
  TemporariesTest() { fs::create_directories(root_ / ".headrace-tmp"); }
  ~TemporariesTest() override { fs::remove_all(root_); }

  // {boot, pid namespace, pid, nonce, count} of a name that this process would use.
  std::vector<std::string> OwnWords() {
    return Split(fs::path(Temporaries(syscalls_, root_).NextPath()).filename().string(), '-');
  }
  std::string Leave(const std::vector<std::string>& words) {
    std::string name;
    for (const std::string& word : words) name += Cat(name.empty() ? "" : "-", word);
    std::ofstream(root_ / ".headrace-tmp" / name) << "half";
    return name;
  }
  // True if the file is still there after a sweep `age` from now.
  bool Survives(const std::string& name, Duration age) {
    Temporaries(syscalls_, root_).Sweep(RealClock().WallNow() + age);
    return fs::exists(root_ / ".headrace-tmp" / name);
  }
  static std::string DeadProcess() {
    pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    ::waitpid(child, nullptr, 0);
    return Cat(child);
  }

  const fs::path root_ = fs::temp_directory_path() / Cat("temporaries_test-", Random::FromEntropy().Hex(16));
  FaultySyscalls syscalls_;
};

constexpr std::chrono::minutes kYoung{30}, kOld{61};

TEST_F(TemporariesTest, NamesAreNeverUsedTwice) {
  Temporaries one(syscalls_, root_), other(syscalls_, root_);
  std::set<std::string> names;
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(names.insert(one.NextPath()).second);
    EXPECT_TRUE(names.insert(other.NextPath()).second);
  }
}

TEST_F(TemporariesTest, WhatADeadProcessLeftIsSweptAfterAnHour) {
  auto words = OwnWords();
  words[2] = DeadProcess();
  std::string name = Leave(words);
  EXPECT_TRUE(Survives(name, kYoung));
  EXPECT_FALSE(Survives(name, kOld));
}

TEST_F(TemporariesTest, WhatALivingProcessWritesIsNeverSwept) {
  EXPECT_TRUE(Survives(Leave(OwnWords()), std::chrono::hours(1000)));
  auto words = OwnWords();
  words[2] = Cat(1);  // lives, and may not even be signalled
  EXPECT_TRUE(Survives(Leave(words), std::chrono::hours(1000)));
}

TEST_F(TemporariesTest, AProcessOfAnotherContainerCannotBeAskedAfter) {
  auto words = OwnWords();
  words[1] = Cat(1234);
  words[2] = DeadProcess();
  EXPECT_TRUE(Survives(Leave(words), kOld));
}

TEST_F(TemporariesTest, WhatAnotherBootLeftIsSweptWhereOnlyThisMachineWrites) {
  auto words = OwnWords();
  words[0] = std::string(32, 'a');
  std::string name = Leave(words);
  syscalls_.local = false;
  EXPECT_TRUE(Survives(name, kOld)) << "another machine may be writing it";
  syscalls_.local = true;
  EXPECT_TRUE(Survives(name, kYoung));
  EXPECT_FALSE(Survives(name, kOld));
}

TEST_F(TemporariesTest, OtherPeoplesFilesAreLeftAlone) {
  auto words = OwnWords();
  for (const char* pid : {"0", "-1", "x", "99999999999999999999"}) {
    words[2] = Cat(pid);
    EXPECT_TRUE(Survives(Leave(words), kOld)) << pid;
  }
  EXPECT_TRUE(Survives(Leave({"notes.txt"}), kOld));
}

TEST_F(TemporariesTest, TheFirstWriteOfAStoreSweeps) {
  auto words = OwnWords();
  words[2] = DeadProcess();
  std::string name = Leave(words);
  fs::last_write_time(root_ / ".headrace-tmp" / name, fs::file_time_type::clock::now() - std::chrono::hours(2));
  FolderStore store(root_);
  EXPECT_TRUE(store.List({}, Deadline())->entries.empty());
  EXPECT_TRUE(fs::exists(root_ / ".headrace-tmp" / name)) << "reading changes nothing";
  ASSERT_TRUE(store.Put("a", std::string("a"), Deadline()).ok());
  EXPECT_FALSE(fs::exists(root_ / ".headrace-tmp" / name));
}

}  // namespace
}  // namespace headrace
