// What the folder store makes of the kernel's refusals: the right code, words that help, and nothing left behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "base/random.h"
#include "base/text.h"
#include "store/folder/faulty_syscalls.h"
#include "store/folder_store.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using Fault = FaultySyscalls::Fault;
using Call = FaultySyscalls::Call;

const Deadline kNever;

class FolderFailureTest : public testing::Test {
 protected:
  ~FolderFailureTest() override { fs::remove_all(root_); }

  // The calls of this name fail, except the first `skip`.
  void Fail(const std::string& name, Fault fault, int skip = 0) {
    syscalls_.on_call = [=, left = skip](const Call& call) mutable -> std::optional<Fault> {
      if (call.name != name || left-- > 0) return std::nullopt;
      return fault;
    };
  }
  void Heal() {
    syscalls_.on_call = [](const Call&) { return std::nullopt; };
  }
  size_t Temporaries() {
    std::error_code absent;
    return std::distance(fs::directory_iterator(root_ / ".headrace-tmp", absent), fs::directory_iterator());
  }
  std::string Content(const std::string& key) {
    auto object = store_.Get(key, kNever);
    if (!object.ok()) return object.status().ToString();
    return object->has_value() ? (*object)->bytes.ToString() : "(absent)";
  }

  const fs::path root_ = fs::temp_directory_path() / Cat("folder_failure_test-", Random::FromEntropy().Hex(16));
  FaultySyscalls syscalls_;
  FolderStore store_{root_.string(), {.syscalls = &syscalls_}};
};

struct Expectation {
  int error;
  Code code;
  const char* advice;
};

TEST_F(FolderFailureTest, EveryRefusalSaysWhatToDo) {
  ASSERT_TRUE(store_.PutIfAbsent("there", std::string("body"), kNever).ok());
  for (Expectation expected : {Expectation{ENOSPC, Code::kFull, "free some and go on"},
                               {EDQUOT, Code::kFull, "quota"},
                               {EFBIG, Code::kFull, "ulimit -f"},
                               {EROFS, Code::kDenied, "read-only"},
                               {EACCES, Code::kDenied, "permission denied for user"},
                               {EMFILE, Code::kUnavailable, "ulimit -n"},
                               {ENFILE, Code::kUnavailable, "fs.file-max"},
                               {EXDEV, Code::kUnsupported, "another file system"},
                               {EOPNOTSUPP, Code::kUnsupported, "hard links"},
                               {EIO, Code::kUnavailable, "input/output error"}}) {
    for (const char* call : {"open", "writev", "fsync", "link"}) {
      Fail(call, {expected.error});
      auto outcome = store_.PutIfAbsent("new/a", std::string("body"), kNever);
      Heal();
      Status status = outcome.ok() ? outcome->reason : outcome.status();
      // A link that failed without a clear refusal is in doubt.
      EXPECT_EQ(outcome.ok(), std::string(call) == "link" && expected.code == Code::kUnavailable)
          << call << ": " << status.ToString();
      EXPECT_EQ(status.code(), expected.code) << call << ": " << status.ToString();
      EXPECT_THAT(status.message(), HasSubstr(expected.advice)) << call;
      EXPECT_THAT(status.message(), HasSubstr(Cat("cannot create file://", root_.string(), "/new/a: "))) << call;
      EXPECT_EQ(Content("new/a"), "(absent)") << call;
      EXPECT_EQ(Temporaries(), 0u) << call;
      EXPECT_TRUE(outcome.ok() || !fs::exists(root_ / "new")) << call << " left a folder behind";
      fs::remove_all(root_ / "new");
    }
    Fail("rename", {expected.error});
    EXPECT_EQ(store_.Put("there", std::string("new"), kNever).code(), expected.code);
    Heal();
    EXPECT_EQ(Content("there"), "body");
    EXPECT_EQ(Temporaries(), 0u);
  }
}

TEST_F(FolderFailureTest, AFileSystemWithoutHardLinksIsUnsupported) {
  Fail("link", {EPERM});
  auto outcome = store_.PutIfAbsent("a", std::string("body"), kNever);
  EXPECT_EQ(outcome.code(), Code::kUnsupported);
  EXPECT_THAT(outcome.status().message(), HasSubstr("hard links"));
}

TEST_F(FolderFailureTest, ReadingAndDeletingSayWhatToDoToo) {
  ASSERT_TRUE(store_.PutIfAbsent("a/b", std::string("body"), kNever).ok());
  Fail("open", {EACCES});
  EXPECT_EQ(store_.Get("a/b", kNever).code(), Code::kDenied);
  EXPECT_EQ(store_.List({}, kNever).code(), Code::kDenied) << "a folder that cannot be read must not look empty";
  Fail("pread", {EIO});
  EXPECT_EQ(store_.Get("a/b", kNever).code(), Code::kUnavailable);
  Fail("stat", {EIO});
  EXPECT_EQ(store_.List({}, kNever).code(), Code::kUnavailable);
  Fail("unlink", {EROFS});
  EXPECT_EQ(store_.DeleteOne("a/b", kNever).code(), Code::kDenied);
  Heal();
  EXPECT_EQ(Content("a/b"), "body");
}

TEST_F(FolderFailureTest, AnAnswerOfLinkThatWasLostIsFoundInTheLinkCount) {
  for (int error : {EIO, EEXIST, ETIMEDOUT, ESTALE, EINTR, ENOENT}) {
    std::string key = Cat("log/", error);
    Fail("link", {error, /*after_effect=*/true});
    auto outcome = store_.PutIfAbsent(key, std::string("mine"), kNever);
    Heal();
    ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
    EXPECT_EQ(outcome->kind, PutOutcome::kCreated) << error;
    EXPECT_EQ(Content(key), "mine");
    EXPECT_EQ(Temporaries(), 0u);
  }
}

TEST_F(FolderFailureTest, AnAnswerThatWasFoundIsSyncedLikeAnyOther) {
  Fail("link", {EIO, /*after_effect=*/true});
  ASSERT_TRUE(store_.PutIfAbsent("log/1", std::string("mine"), kNever).ok());
  std::vector<std::string> trace = syscalls_.Trace();
  auto link = std::ranges::find_if(trace, [](const std::string& call) { return call.starts_with("link"); });
  EXPECT_NE(std::find(link, trace.end(), Cat("fsync ", (root_ / "log").string())), trace.end());
}

TEST_F(FolderFailureTest, ALinkThatFailedWithoutAnEffectIsUnknownUnlessItWasARefusal) {
  for (int error : {EIO, ETIMEDOUT, ESTALE, ENOMEM}) {
    Fail("link", {error});
    auto outcome = store_.PutIfAbsent("a", std::string("mine"), kNever);
    Heal();
    ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
    EXPECT_EQ(outcome->kind, PutOutcome::kUnknown) << error;
    EXPECT_FALSE(outcome->reason.ok());
    EXPECT_EQ(Temporaries(), 0u);
  }
}

TEST_F(FolderFailureTest, ExistsWithOneLinkIsAnotherCreators) {
  // The rival comes between our look and our link.
  syscalls_.on_call = [&](const Call& call) -> std::optional<Fault> {
    if (call.name == "link") std::ofstream(root_ / "a") << "rival's";
    return std::nullopt;
  };
  auto outcome = store_.PutIfAbsent("a", std::string("mine"), kNever);
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_EQ(outcome->kind, PutOutcome::kExists);
  EXPECT_EQ(Content("a"), "rival's");
  EXPECT_EQ(Temporaries(), 0u);
}

TEST_F(FolderFailureTest, ASecondLinkThatIsNotOursIsNoProof) {
  // A backup by hard links has caught the temporary file, and a rival the key.
  syscalls_.on_call = [&](const Call& call) -> std::optional<Fault> {
    if (call.name != "link") return std::nullopt;
    std::ofstream(root_ / "a") << "rival's";
    fs::create_hard_link(fs::directory_iterator(root_ / ".headrace-tmp")->path(), root_ / "backup");
    return std::nullopt;
  };
  auto outcome = store_.PutIfAbsent("a", std::string("mine"), kNever);
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_EQ(outcome->kind, PutOutcome::kUnknown);
}

TEST_F(FolderFailureTest, ANameThatMayNotOutliveAPowerCutIsUnknown) {
  ASSERT_TRUE(store_.PutIfAbsent("log/0", std::string("first"), kNever).ok());
  Fail("fsync", {EIO}, /*skip=*/1);
  auto outcome = store_.PutIfAbsent("log/1", std::string("mine"), kNever);
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_EQ(outcome->kind, PutOutcome::kUnknown);
}

TEST_F(FolderFailureTest, ATemporaryFileThatSomebodyRemovedIsNotTakenForSuccess) {
  syscalls_.on_call = [&](const Call& call) -> std::optional<Fault> {
    if (call.name == "link" || call.name == "rename") fs::remove_all(root_ / ".headrace-tmp");
    return std::nullopt;
  };
  EXPECT_EQ(store_.PutIfAbsent("a", std::string("mine"), kNever).code(), Code::kUnavailable);
  EXPECT_EQ(store_.Put("a", std::string("mine"), kNever).code(), Code::kUnavailable);
  EXPECT_EQ(Content("a"), "(absent)");
}

// Any single system call fails, before or after its effect: the answer is still true, and the next attempt works.
TEST_F(FolderFailureTest, WhicheverCallFailsTheAnswerIsTrue) {
  for (bool after_effect : {false, true}) {
    for (int error : {EIO, ENOSPC}) {
      bool reached = true;
      for (size_t victim = 0; reached; ++victim) {
        fs::remove_all(root_);
        syscalls_.Forget();
        FolderStore store(root_.string(), {.syscalls = &syscalls_});
        std::string failed;
        syscalls_.on_call = [&](const Call& call) -> std::optional<Fault> {
          if (call.number != victim) return std::nullopt;
          failed = call.name;
          return Fault{error, after_effect};
        };
        auto outcome = store.PutIfAbsent("a/b", std::string("mine"), kNever);
        Heal();
        reached = !failed.empty();
        std::string what =
            Cat(failed, " (call ", victim, ") failed with ", error, after_effect ? " after" : " before", " its effect");
        std::string content = Content("a/b");
        if (!outcome.ok()) {
          EXPECT_EQ(content, "(absent)") << what << ": " << outcome.status().ToString();
        } else if (outcome->kind == PutOutcome::kCreated) {
          EXPECT_EQ(content, "mine") << what;
        } else {
          EXPECT_EQ(outcome->kind, PutOutcome::kUnknown) << what;
          EXPECT_TRUE(content == "mine" || content == "(absent)") << what << ": " << content;
        }
        // A name in the temporary folder may only stay if it could not be removed.
        EXPECT_TRUE(Temporaries() == 0 || failed == "unlink" || (failed == "open" && after_effect)) << what;
        auto again = store.PutIfAbsent("a/b", std::string("mine"), kNever);
        ASSERT_TRUE(again.ok()) << what << ": " << again.status().ToString();
        EXPECT_EQ(again->kind, content == "mine" ? PutOutcome::kExists : PutOutcome::kCreated) << what;
        EXPECT_EQ(Content("a/b"), "mine");
      }
    }
  }
}

TEST_F(FolderFailureTest, ALimitOnTheSizeOfFilesIsFull) {
  // Really refused by the kernel. The signal that comes with it is the program's to ignore, as the command does.
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = {100000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  auto outcome = store_.PutIfAbsent("a", std::string(1 << 20, 'x'), kNever);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(outcome.code(), Code::kFull) << outcome.status().ToString();
  EXPECT_EQ(Temporaries(), 0u);
  EXPECT_EQ(Content("a"), "(absent)");
}

}  // namespace
}  // namespace headrace
