// Real disks that are full, read-only or closed to us. Each test runs in a process of its own, with mounts of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "base/text.h"
#include "scratch.h"
#include "store/folder_store.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const Deadline kNever;
constexpr int kNotAllowed = 77;

// A process that may mount what it likes without anybody else seeing it. False if this machine does not allow that.
bool OwnMounts() {
  if (::unshare(CLONE_NEWNS) != 0) {
    const uid_t user = ::getuid();
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/uid_map") << "0 " << user << " 1";
  }
  return ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

// `body` in a process of its own; its failures are those of the test.
void InAProcess(const std::function<void()>& body) {
  std::fflush(nullptr);
  pid_t process = ::fork();
  ASSERT_GE(process, 0);
  if (process == 0) {
    // An exception must not find its way back into GoogleTest, which would go on with the other tests here.
    [&]() noexcept { body(); }();
    std::fflush(nullptr);
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(process, &status, 0), process);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNotAllowed) GTEST_SKIP() << "LEFT OUT: this machine does not let us mount, or be another user";
  EXPECT_EQ(WEXITSTATUS(status), 0) << "see the failures above";
}

void MountSmall(const std::string& path) {
  fs::create_directories(path);
  if (!OwnMounts() || ::mount("tmpfs", path.c_str(), "tmpfs", 0, "size=1m") != 0) ::_exit(kNotAllowed);
}

size_t Temporaries(const std::string& root) {
  std::error_code absent;
  return std::distance(fs::directory_iterator(fs::path(root) / ".headrace-tmp", absent), fs::directory_iterator());
}

TEST(Disk, AFullOneIsSaidSoAndNothingHalfIsLeft) {
  ScratchFolder scratch;
  InAProcess([&] {
    const std::string root = scratch.Below("small");
    MountSmall(root);
    FolderStore store(root);
    const std::string body(100000, 'x');
    Status refused;
    int written = 0;
    for (; written < 100; ++written) {
      auto outcome = store.PutIfAbsent(Cat("data/", written), body, kNever);
      refused = outcome.status();
      if (!outcome.ok()) break;
    }
    EXPECT_GT(written, 3);
    EXPECT_EQ(refused.code(), Code::kFull) << refused.ToString();
    EXPECT_THAT(refused.message(), HasSubstr(Cat("cannot create file://", root, "/data/", written,
                                                 ": no space left on device; free some and go on")));
    EXPECT_EQ(store.Put("hint", body, kNever).code(), Code::kFull);
    EXPECT_EQ(ListAll(store, "", kNever)->size(), static_cast<size_t>(written));
    EXPECT_EQ(Temporaries(root), 0u);
    for (int i = 0; i < written; ++i) EXPECT_EQ((**store.Get(Cat("data/", i), kNever)).bytes.AsText(), body);

    EXPECT_TRUE(store.DeleteOne("data/0", kNever).ok());
    EXPECT_TRUE(store.PutIfAbsent(Cat("data/", written), body, kNever).ok()) << "with some space freed it goes on";
  });
}

TEST(Disk, AReadOnlyOneIsReadAndNotWritten) {
  ScratchFolder scratch;
  InAProcess([&] {
    const std::string root = scratch.Below("small");
    MountSmall(root);
    ASSERT_TRUE(FolderStore(root).Put("data/0", std::string("body"), kNever).ok());
    ASSERT_EQ(::mount("tmpfs", root.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr), 0);
    FolderStore store(root);
    EXPECT_EQ((**store.Get("data/0", kNever)).bytes.AsText(), "body");
    EXPECT_EQ(ListAll(store, "", kNever)->size(), 1u);
    EXPECT_EQ(store.PutIfAbsent("data/0", std::string("again"), kNever)->kind, PutOutcome::kExists);
    for (Status status : {store.PutIfAbsent("data/1", std::string("new"), kNever).status(),
                          store.Put("data/0", std::string("new"), kNever), store.DeleteOne("data/0", kNever)}) {
      EXPECT_EQ(status.code(), Code::kDenied) << status.ToString();
      EXPECT_THAT(status.message(), HasSubstr("read-only"));
    }
    EXPECT_EQ((**store.Get("data/0", kNever)).bytes.AsText(), "body");
  });
}

TEST(Disk, AFolderThatIsClosedToUsIsSaidSo) {
  ScratchFolder scratch;
  const std::string root = scratch.Below("closed");
  ASSERT_TRUE(FolderStore(root).Put("data/0", std::string("body"), kNever).ok());
  for (const std::string& path : {scratch.Below("."), root, root + "/data"}) fs::permissions(path, static_cast<fs::perms>(0755));
  InAProcess([&] {
    // Permissions do not bind root.
    if (::getuid() != 0) {
      fs::permissions(root, fs::perms::owner_read | fs::perms::owner_exec);
    } else {
      // A container may have no second user, and the way to the folder may be closed to it.
      if (::setuid(65534) != 0 || ::access(root.c_str(), R_OK | X_OK) != 0) ::_exit(kNotAllowed);
    }
    FolderStore store(root);
    EXPECT_EQ((**store.Get("data/0", kNever)).bytes.AsText(), "body") << "reading needs read permission only";
    Status status = store.PutIfAbsent("new", std::string("new"), kNever).status();
    EXPECT_EQ(status.code(), Code::kDenied) << status.ToString();
    EXPECT_THAT(status.message(), HasSubstr(Cat("permission denied for user ", ::getuid())));
  });
  fs::permissions(root, fs::perms::owner_all);
}

}  // namespace
}  // namespace headrace
