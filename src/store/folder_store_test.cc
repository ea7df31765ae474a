// The folder store where it differs from the others; what all of them promise is in tests/conformance.
#include "store/folder_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "base/random.h"
#include "base/text.h"
#include "store/folder/faulty_syscalls.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

const Deadline kNever;

class FolderStoreTest : public testing::Test {
 protected:
  FolderStoreTest() { fs::create_directory(place_); }
  ~FolderStoreTest() override { fs::remove_all(place_); }

  // Folder and file names below the root, with a '/' behind folders.
  std::vector<std::string> Files() {
    std::vector<std::string> names;
    if (fs::exists(root_)) {
      for (const auto& entry : fs::recursive_directory_iterator(root_)) {
        names.push_back(entry.path().lexically_relative(root_).string() + (entry.is_directory() ? "/" : ""));
      }
    }
    std::ranges::sort(names);
    return names;
  }
  std::string Content(ObjectStore& store, const std::string& key) {
    auto object = store.Get(key, kNever);
    if (!object.ok()) return object.status().ToString();
    return object->has_value() ? (*object)->bytes.ToString() : "(absent)";
  }
  PutOutcome::Kind Create(ObjectStore& store, const std::string& key, const std::string& body) {
    auto outcome = store.PutIfAbsent(key, body, kNever);
    EXPECT_TRUE(outcome.ok()) << outcome.status().ToString();
    return outcome.ok() ? outcome->kind : PutOutcome::kUnknown;
  }

  const fs::path place_ = fs::temp_directory_path() / Cat("folder_store_test-", Random::FromEntropy().Hex(16));
  const fs::path root_ = place_ / "root";
};

TEST_F(FolderStoreTest, ReadersFindAMissingRootEmptyAndDoNotMakeIt) {
  FolderStore store(root_);
  EXPECT_FALSE(store.Get("a", kNever)->has_value());
  EXPECT_TRUE(store.List({}, kNever)->entries.empty());
  EXPECT_TRUE(store.DeleteOne("a/b", kNever).ok());
  EXPECT_FALSE(fs::exists(root_));
}

TEST_F(FolderStoreTest, TheFirstWriteMakesTheRootAndTheFoldersAboveIt) {
  FolderStore store(root_ / "x" / "y");
  EXPECT_EQ(Create(store, "a/b", "body"), PutOutcome::kCreated);
  EXPECT_TRUE(fs::is_regular_file(root_ / "x" / "y" / "a" / "b"));
}

TEST_F(FolderStoreTest, AStoreThatMadeItsRootAndLeavesItEmptyTakesItAway) {
  {
    FolderStore store(root_ / "x" / "y");
    ASSERT_EQ(Create(store, "a/b", "body"), PutOutcome::kCreated);
    ASSERT_TRUE(store.DeleteOne("a/b", kNever).ok());
  }
  EXPECT_FALSE(fs::exists(root_));
  fs::create_directories(root_);
  {
    FolderStore(root_).PutIfAbsent("a", std::string(), kNever).ok();
  }
  EXPECT_THAT(Files(), ElementsAre("a"));
  {
    FolderStore store(root_);
    ASSERT_TRUE(store.DeleteOne("a", kNever).ok());
  }
  EXPECT_TRUE(fs::exists(root_)) << "a root that was there before stays";
}

TEST_F(FolderStoreTest, ARelativePathCountsFromWhereItWasOpened) {
  const fs::path before = fs::current_path();
  fs::current_path(place_);
  FolderStore store("root");
  fs::current_path(before);
  ASSERT_EQ(Create(store, "a", "body"), PutOutcome::kCreated);
  EXPECT_TRUE(fs::exists(root_ / "a"));
  EXPECT_EQ(store.Describe("a/b"), Cat("file://", root_.string(), "/a/b"));
}

TEST_F(FolderStoreTest, AFileInPlaceOfTheRootIsSaidSo) {
  std::ofstream(root_) << "file";
  FolderStore store(root_);
  FolderStore below(root_ / "x");
  for (FolderStore* refused : {&store, &below}) {
    EXPECT_EQ(refused->Get("a", kNever).code(), Code::kInvalidArgument);
    EXPECT_EQ(refused->List({}, kNever).code(), Code::kInvalidArgument);
    EXPECT_EQ(refused->DeleteOne("a", kNever).code(), Code::kInvalidArgument);
    EXPECT_EQ(refused->Put("a", std::string(), kNever).code(), Code::kInvalidArgument);
    auto outcome = refused->PutIfAbsent("a", std::string(), kNever);
    EXPECT_EQ(outcome.code(), Code::kInvalidArgument);
    EXPECT_THAT(outcome.status().message(), HasSubstr("needs a folder"));
  }
}

TEST_F(FolderStoreTest, NoKeyIsTheFolderOfAnother) {
  FolderStore store(root_);
  ASSERT_EQ(Create(store, "a/b", "body"), PutOutcome::kCreated);
  for (const char* key : {"a", "a/b/c", "a/b/c/d"}) {
    EXPECT_EQ(store.PutIfAbsent(key, std::string(), kNever).code(), Code::kInvalidArgument) << key;
    EXPECT_EQ(store.Put(key, std::string(), kNever).code(), Code::kInvalidArgument) << key;
    EXPECT_FALSE(store.Get(key, kNever)->has_value()) << key;
  }
  EXPECT_THAT(Files(), ElementsAre(".headrace-tmp/", "a/", "a/b"));
}

TEST_F(FolderStoreTest, AnEmptyFolderMakesRoomForAnObject) {
  fs::create_directories(root_ / "a");
  fs::create_directories(root_ / "b");
  FolderStore store(root_);
  EXPECT_EQ(Create(store, "a", "created"), PutOutcome::kCreated);
  EXPECT_TRUE(store.Put("b", std::string("put"), kNever).ok());
  EXPECT_EQ(Content(store, "a"), "created");
  EXPECT_EQ(Content(store, "b"), "put");
}

TEST_F(FolderStoreTest, TheStoresOwnNamesAreRefusedAndHidden) {
  FolderStore store(root_);
  for (const char* key : {".headrace-tmp", ".headrace-tmp/x", "a/.headrace-tmp", ".nfs0000000000abcdef00000001"}) {
    EXPECT_EQ(store.Get(key, kNever).code(), Code::kInvalidArgument) << key;
    EXPECT_EQ(store.Put(key, std::string(), kNever).code(), Code::kInvalidArgument) << key;
    EXPECT_EQ(store.PutIfAbsent(key, std::string(), kNever).code(), Code::kInvalidArgument) << key;
    EXPECT_EQ(store.DeleteOne(key, kNever).code(), Code::kInvalidArgument) << key;
  }
  ASSERT_EQ(Create(store, ".nfs-is-a-fine-name", ""), PutOutcome::kCreated);
  std::ofstream(root_ / ".headrace-tmp" / "x") << "x";
  std::ofstream(root_ / ".nfs0000000000abcdef00000001") << "deleted while open";
  std::ofstream(root_ / "not utf-8 \xff") << "x";
  std::ofstream(root_ / "line\nbreak") << "x";
  auto listed = ListAll(store, "", kNever);
  ASSERT_TRUE(listed.ok());
  EXPECT_THAT(*listed, ElementsAre(ListEntry{".nfs-is-a-fine-name", 0}));
  EXPECT_TRUE(ListAll(store, ".headrace-tmp/", kNever)->empty());
}

TEST_F(FolderStoreTest, APipeIsNoObjectAndIsNotWaitedFor) {
  fs::create_directories(root_);
  ASSERT_EQ(::mkfifo((root_ / "pipe").c_str(), 0666), 0);
  FolderStore store(root_);
  EXPECT_EQ(store.Get("pipe", kNever).code(), Code::kInvalidArgument);
  EXPECT_TRUE(store.List({}, kNever)->entries.empty());
}

TEST_F(FolderStoreTest, LinksAreFollowedAndLinksToNowhereAreNotThere) {
  fs::create_directories(place_ / "elsewhere");
  std::ofstream(place_ / "elsewhere" / "x") << "12345";
  fs::create_directories(root_);
  fs::create_symlink(place_ / "elsewhere", root_ / "folder");
  fs::create_symlink(place_ / "elsewhere" / "x", root_ / "file");
  fs::create_symlink(place_ / "nowhere", root_ / "nowhere");
  FolderStore store(root_);
  EXPECT_THAT(*ListAll(store, "", kNever), ElementsAre(ListEntry{"file", 5}, ListEntry{"folder/x", 5}));
  EXPECT_EQ(Content(store, "folder/x"), "12345");
  EXPECT_EQ(Content(store, "nowhere"), "(absent)");
}

TEST_F(FolderStoreTest, LargeReadsAreMapsOfTheFile) {
  FolderStore store(root_);
  const std::string body(1 << 20, 'x');
  ASSERT_EQ(Create(store, "large", body), PutOutcome::kCreated);
  auto maps = [&] {
    std::ifstream file("/proc/self/maps");
    std::string all{std::istreambuf_iterator<char>(file), {}};
    return all.find((root_ / "large").string()) != std::string::npos;
  };
  {
    auto object = store.Get("large", GetOptions{.range = ByteRange::At(5000, 500000)}, kNever);
    EXPECT_TRUE(maps());
    EXPECT_EQ((*object)->bytes.AsText(), std::string_view(body).substr(0, 500000));
  }
  EXPECT_FALSE(maps()) << "a mapping must end with its bytes";
}

TEST_F(FolderStoreTest, FilesThatOtherMachinesMayDeleteAreReadAndNotMapped) {
  FaultySyscalls syscalls;
  syscalls.local = false;
  FolderStore store(root_, {.syscalls = &syscalls});
  const std::string body(1 << 20, 'x');
  ASSERT_EQ(Create(store, "large", body), PutOutcome::kCreated);
  auto object = store.Get("large", kNever);
  std::ofstream(root_ / "large", std::ios::in | std::ios::out) << "changed in place";
  EXPECT_EQ((*object)->bytes.AsText(), body);
}

TEST_F(FolderStoreTest, AFileThatIsCutWhileItIsReadIsCorrupt) {
  FaultySyscalls syscalls;
  FolderStore store(root_, {.syscalls = &syscalls});
  ASSERT_EQ(Create(store, "a", std::string(1000, 'x')), PutOutcome::kCreated);
  syscalls.on_call = [&](const FaultySyscalls::Call& call) -> std::optional<FaultySyscalls::Fault> {
    if (call.name == "pread") fs::resize_file(root_ / "a", 500);
    return std::nullopt;
  };
  auto object = store.Get("a", kNever);
  EXPECT_EQ(object.code(), Code::kCorrupt) << object.status().ToString();
}

TEST_F(FolderStoreTest, ShortAndInterruptedCallsAreGoneOnWith) {
  FaultySyscalls syscalls;
  syscalls.longest_write = 100;
  syscalls.on_call = [](const FaultySyscalls::Call& call) -> std::optional<FaultySyscalls::Fault> {
    bool interruptible = call.name == "open" || call.name == "writev" || call.name == "pread" || call.name == "fsync";
    if (interruptible && call.number % 2 == 0) return FaultySyscalls::Fault{EINTR};
    return std::nullopt;
  };
  FolderStore store(root_, {.syscalls = &syscalls});
  Body body;
  std::string whole;
  for (int i = 0; i < 50; ++i) {
    body.Append(Bytes::FromString(std::string(i * 7, static_cast<char>('a' + i % 26))));
    whole.append(i * 7, static_cast<char>('a' + i % 26));
  }
  auto outcome = store.PutIfAbsent("a", body, kNever);
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_EQ(outcome->kind, PutOutcome::kCreated);
  EXPECT_EQ(Content(store, "a"), whole);
}

TEST_F(FolderStoreTest, WithoutSyncNothingIsSynced) {
  FaultySyscalls syscalls;
  FolderStore store(root_, {.sync = false, .syscalls = &syscalls});
  ASSERT_EQ(Create(store, "a/b", "body"), PutOutcome::kCreated);
  ASSERT_EQ(Create(store, "a/b", "body"), PutOutcome::kExists);
  ASSERT_TRUE(store.Put("a/c", std::string("body"), kNever).ok());
  ASSERT_TRUE(store.DeleteOne("a/c", kNever).ok());
  for (const std::string& call : syscalls.Trace()) EXPECT_FALSE(call.starts_with("fsync")) << call;
}

TEST_F(FolderStoreTest, NewFoldersAreDurableBeforeSomethingIsLinkedIntoThem) {
  FaultySyscalls syscalls;
  FolderStore store(root_, {.syscalls = &syscalls});
  ASSERT_EQ(Create(store, "a/b/c", "body"), PutOutcome::kCreated);
  std::vector<std::string> trace = syscalls.Trace();
  auto link = std::ranges::find(trace, Cat("link ", (root_ / "a" / "b" / "c").string()));
  ASSERT_NE(link, trace.end());
  for (const fs::path& parent : {place_, root_, root_ / "a"}) {
    EXPECT_LT(std::ranges::find(trace, Cat("fsync ", parent.string())), link) << parent << " holds a new folder";
  }
  EXPECT_NE(std::find(link, trace.end(), Cat("fsync ", (root_ / "a" / "b").string())), trace.end());
}

TEST_F(FolderStoreTest, AFolderThatOthersRemoveIsMadeAgain) {
  FaultySyscalls syscalls;
  std::map<std::string, int> removals;  // left, by the name of the call that they come before
  syscalls.on_call = [&](const FaultySyscalls::Call& call) -> std::optional<FaultySyscalls::Fault> {
    if (call.path.starts_with((root_ / "a").string()) && removals[call.name]-- > 0) fs::remove_all(root_ / "a");
    return std::nullopt;
  };
  FolderStore store(root_, {.syscalls = &syscalls});
  removals = {{"open", 2}, {"mkdir", 2}, {"link", 2}};
  EXPECT_EQ(Create(store, "a/b/created", "body"), PutOutcome::kCreated);
  EXPECT_EQ(Content(store, "a/b/created"), "body");
  removals = {{"open", 2}, {"mkdir", 2}, {"rename", 2}};
  EXPECT_TRUE(store.Put("a/b/put", std::string("body"), kNever).ok());
  EXPECT_EQ(Content(store, "a/b/put"), "body");
}

TEST_F(FolderStoreTest, FoldersThatBecomeEmptyAreRemoved) {
  FolderStore store(root_);
  ASSERT_EQ(Create(store, "a/b/c/d", ""), PutOutcome::kCreated);
  ASSERT_EQ(Create(store, "a/x", ""), PutOutcome::kCreated);
  ASSERT_TRUE(store.DeleteOne("a/b/c/d", kNever).ok());
  EXPECT_THAT(Files(), ElementsAre(".headrace-tmp/", "a/", "a/x"));
  ASSERT_TRUE(store.DeleteOne("a/x", kNever).ok());
  EXPECT_THAT(Files(), ElementsAre(".headrace-tmp/"));
}

// A clock that moves on whenever somebody looks at it, so that a deadline passes between any two system calls.
class TickingClock final : public Clock {
 public:
  Instant Now() override { return now_ += Duration(1); }
  WallTime WallNow() override { return WallTime(); }
  void SleepUntil(Instant, std::stop_token) override {}

 private:
  Instant now_{};
};

TEST_F(FolderStoreTest, ADeadlineThatPassesHalfWayLeavesNothing) {
  int created = 0, late = 0;
  for (int ticks = 1; created < 3; ++ticks) {
    TickingClock clock;
    FolderStore store(root_, {.clock = &clock});
    auto outcome = store.PutIfAbsent("a/b", Body(std::string(20 << 20, 'x')), Deadline(Instant(Duration(ticks))));
    if (outcome.ok()) {
      ++created;
      EXPECT_EQ((**store.Get("a/b", kNever)).size, 20u << 20);
      ASSERT_TRUE(store.DeleteOne("a/b", kNever).ok());
    } else {
      ++late;
      EXPECT_EQ(outcome.code(), Code::kTimeout) << outcome.status().ToString();
    }
    EXPECT_TRUE(ListAll(store, "", kNever)->empty());
    for (const std::string& file : Files()) EXPECT_EQ(file, ".headrace-tmp/");
    ASSERT_LT(ticks, 100);
  }
  EXPECT_GE(late, 5) << "before, between the pieces, after the last piece, before the link";
}

}  // namespace
}  // namespace headrace
