// The order of system calls that durability rests on, as the kernel sees it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "scratch.h"
#include "store/folder_store.h"
#include "tracer.h"

namespace headrace {
namespace {

const Deadline kNever;

// The calls that change something under `root` or make it durable, as words; the temporary file is called TMP.
std::vector<std::string> Story(const TracedRun& run, const std::string& root) {
  auto name = [&](const std::string& path) -> std::string {
    if (path.starts_with(root + "/.headrace-tmp/")) return "TMP";
    return path == root || path == root + "/" ? "ROOT" : path.substr(std::min(path.size(), root.size() + 1));
  };
  std::vector<std::string> story;
  for (const TracedCall& call : run.calls) {
    if (call.name == "other" || call.name == "open" || call.result < 0 || !call.path.starts_with(root)) continue;
    story.push_back(call.target.empty() ? Cat(call.name, " ", name(call.path))
                                        : Cat(call.name, " ", name(call.path), " ", name(call.target)));
  }
  return story;
}

TEST(Order, ACreateSyncsTheFileLinksItAndSyncsTheFolder) {
  ScratchFolder scratch;
  const std::string root = scratch.Below("root");
  TracedRun run = RunTraced([&] {
    FolderStore store(root);
    // The folder is made by the first one.
    bool created = store.PutIfAbsent("log/0", std::string("first"), kNever)->kind == PutOutcome::kCreated;
    created &= store.PutIfAbsent("log/1", std::string("second"), kNever)->kind == PutOutcome::kCreated;
    return created ? 0 : 1;
  });
  ASSERT_EQ(run.exit_status, 0);
  EXPECT_THAT(Story(run, root), testing::ElementsAre("mkdir ROOT", "mkdir .headrace-tmp",                                //
                                                     "write TMP", "fsync TMP", "mkdir log", "fsync ROOT", "link TMP log/0",  //
                                                     "fsync log", "unlink TMP",                                            //
                                                     "write TMP", "fsync TMP", "link TMP log/1", "fsync log", "unlink TMP",  //
                                                     "rmdir .headrace-tmp"));
}

TEST(Order, APutSyncsTheFileRenamesItAndSyncsTheFolder) {
  ScratchFolder scratch;
  const std::string root = scratch.Below("root");
  ASSERT_TRUE(FolderStore(root).Put("log/hint", std::string("old"), kNever).ok());
  TracedRun run = RunTraced([&] {
    FolderStore store(root);
    return store.Put("log/hint", std::string("new"), kNever).ok() ? 0 : 1;
  });
  ASSERT_EQ(run.exit_status, 0);
  EXPECT_THAT(Story(run, root), testing::ElementsAre("mkdir .headrace-tmp", "write TMP", "fsync TMP", "fsync ROOT",
                                                     "rename TMP log/hint", "fsync log", "rmdir .headrace-tmp"));
}

TEST(Order, ADeleteIsSyncedToo) {
  ScratchFolder scratch;
  const std::string root = scratch.Below("root");
  ASSERT_TRUE(FolderStore(root).Put("log/0", std::string("old"), kNever).ok());
  ASSERT_TRUE(FolderStore(root).Put("log/1", std::string("old"), kNever).ok());
  TracedRun run = RunTraced([&] {
    FolderStore store(root);
    return store.DeleteOne("log/0", kNever).ok() && store.DeleteOne("log/1", kNever).ok() ? 0 : 1;
  });
  ASSERT_EQ(run.exit_status, 0);
  EXPECT_THAT(Story(run, root), testing::ElementsAre("unlink log/0", "fsync log", "unlink log/1", "rmdir log", "fsync ROOT"));
}

TEST(Order, ALoserWritesNothing) {
  ScratchFolder scratch;
  const std::string root = scratch.Below("root");
  ASSERT_TRUE(FolderStore(root).Put("log/0", std::string("old"), kNever).ok());
  TracedRun run = RunTraced([&] {
    FolderStore store(root);
    return store.PutIfAbsent("log/0", std::string("new"), kNever)->kind == PutOutcome::kExists ? 0 : 1;
  });
  ASSERT_EQ(run.exit_status, 0);
  EXPECT_THAT(Story(run, root), testing::ElementsAre("fsync log"));
}

}  // namespace
}  // namespace headrace
