// A writer is killed at each of its system calls in turn: every object is whole or absent, and life goes on.
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>

#include "base/text.h"
#include "scratch.h"
#include "store/folder_store.h"
#include "tracer.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;

const Deadline kNever;

// More pieces than one system call takes.
Body Pieces(char letter) {
  Body body;
  for (int i = 0; i < 600; ++i) body.Append(Bytes::FromString(std::string(100 + i % 7, letter)));
  return body;
}

std::string Content(ObjectStore& store, const std::string& key) {
  auto object = store.Get(key, kNever);
  if (!object.ok()) return object.status().ToString();
  return object->has_value() ? (*object)->bytes.ToString() : "(absent)";
}

size_t Temporaries(const std::string& root) {
  std::error_code absent;
  return std::distance(fs::directory_iterator(fs::path(root) / ".headrace-tmp", absent), fs::directory_iterator());
}

// Two hours from now, when what the dead left behind may be swept.
class LaterClock final : public Clock {
 public:
  Instant Now() override { return RealClock().Now(); }
  WallTime WallNow() override { return RealClock().WallNow() + std::chrono::hours(2); }
  void SleepUntil(Instant, std::stop_token) override {}
};

struct Scene {
  const char* name;
  std::function<void(FolderStore&)> before;     // by a process that lives
  std::function<bool(FolderStore&)> operation;  // by the one that is killed; true: it succeeded
  std::optional<std::string> old_content;       // of "log/new"; nothing: absent
  std::optional<std::string> new_content;
};

// Every stop of the operation, one run for each, and what has to hold after it.
void KillAtEveryStop(const Scene& scene) {
  const std::string old_content = scene.old_content.value_or("(absent)"), new_content = scene.new_content.value_or("(absent)");
  bool saw_old = false, saw_new = false, ended = false;
  for (size_t stop = 0; !ended; ++stop) {
    SCOPED_TRACE(Cat(scene.name, ", killed at stop ", stop));
    ScratchFolder scratch;
    const std::string root = scratch.Below("root");
    {
      FolderStore store(root, {.sync = false});
      ASSERT_EQ(store.PutIfAbsent("other", std::string("stays"), kNever)->kind, PutOutcome::kCreated);
      scene.before(store);
    }
    TracedRun run = RunTraced(
        [&] {
          FolderStore store(root);
          return scene.operation(store) ? 0 : 1;
        },
        stop);
    ended = !run.killed;
    ASSERT_TRUE(run.killed || run.exit_status == 0) << "the operation must succeed when nobody kills it";

    FolderStore store(root, {.sync = false});
    const std::string content = Content(store, "log/new");
    ASSERT_TRUE(content == old_content || content == new_content) << content.size() << " bytes: " << content.substr(0, 100);
    (content == new_content ? saw_new : saw_old) = true;

    auto listed = ListAll(store, "", kNever);
    ASSERT_TRUE(listed.ok()) << listed.status().ToString();
    std::vector<ListEntry> expected;
    if (content != "(absent)") expected.push_back({"log/new", content.size()});
    expected.push_back({"other", 5});
    ASSERT_EQ(*listed, expected);

    ASSERT_TRUE(scene.operation(store)) << "a retry must succeed";
    ASSERT_EQ(Content(store, "log/new"), new_content);
    ASSERT_EQ(Content(store, "other"), "stays");

    ASSERT_LE(Temporaries(root), 1u);
    LaterClock later;
    FolderStore sweeper(root, {.sync = false, .clock = &later});
    ASSERT_TRUE(sweeper.Put("other", std::string("stays"), kNever).ok());
    ASSERT_EQ(Temporaries(root), 0u) << "what a dead process left must be swept by a later one";
  }
  EXPECT_TRUE(saw_old && saw_new) << "the kills must fall on both sides of the effect";
}

bool CreateOrFind(FolderStore& store) {
  auto outcome = store.PutIfAbsent("log/new", Pieces('n'), kNever);
  return outcome.ok() && outcome->kind != PutOutcome::kUnknown;
}

TEST(Kill, ACreateInANewFolderIsWholeOrAbsent) {
  KillAtEveryStop({.name = "create in a new folder",
                   .before = [](FolderStore&) {},
                   .operation = CreateOrFind,
                   .old_content = std::nullopt,
                   .new_content = Pieces('n').Join().ToString()});
}

TEST(Kill, ACreateInAFolderThatIsThereIsWholeOrAbsent) {
  KillAtEveryStop({.name = "create",
                   .before = [](FolderStore& store) { fs::create_directory(fs::path(store.root()) / "log"); },
                   .operation = CreateOrFind,
                   .old_content = std::nullopt,
                   .new_content = Pieces('n').Join().ToString()});
}

TEST(Kill, APutIsWholeOrAbsent) {
  KillAtEveryStop({.name = "put",
                   .before = [](FolderStore&) {},
                   .operation = [](FolderStore& store) { return store.Put("log/new", Pieces('n'), kNever).ok(); },
                   .old_content = std::nullopt,
                   .new_content = Pieces('n').Join().ToString()});
}

TEST(Kill, AReplacementIsTheOldObjectOrTheNew) {
  KillAtEveryStop({.name = "replace",
                   .before = [](FolderStore& store) { ASSERT_TRUE(store.Put("log/new", Pieces('o'), kNever).ok()); },
                   .operation = [](FolderStore& store) { return store.Put("log/new", Pieces('n'), kNever).ok(); },
                   .old_content = Pieces('o').Join().ToString(),
                   .new_content = Pieces('n').Join().ToString()});
}

TEST(Kill, ADeleteIsDoneOrNot) {
  KillAtEveryStop({.name = "delete",
                   .before = [](FolderStore& store) { ASSERT_TRUE(store.Put("log/new", Pieces('o'), kNever).ok()); },
                   .operation = [](FolderStore& store) { return store.DeleteOne("log/new", kNever).ok(); },
                   .old_content = Pieces('o').Join().ToString(),
                   .new_content = std::nullopt});
}

}  // namespace
}  // namespace headrace
