#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stop_token>
#include <thread>

#include "base/text.h"
#include "store/s3/credentials.h"

namespace headrace {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

std::string Output(const std::string& command, Deadline deadline = Deadline::After(RealClock(), 1min)) {
  Result<std::string> output = Surroundings::Process().run(command, deadline);
  return output.ok() ? *output : output.status().ToString();
}

std::string TemporaryPath() { return Cat(testing::TempDir(), "headrace-surroundings-", ::getpid()); }

TEST(Process, AnEmptyVariableIsNotSet) {
  Surroundings process = Surroundings::Process();
  ::setenv("HEADRACE_TEST_VARIABLE", "x", 1);
  EXPECT_EQ(process.env("HEADRACE_TEST_VARIABLE"), "x");
  ::setenv("HEADRACE_TEST_VARIABLE", "", 1);
  EXPECT_EQ(process.env("HEADRACE_TEST_VARIABLE"), std::nullopt);
  ::unsetenv("HEADRACE_TEST_VARIABLE");
  EXPECT_EQ(process.env("HEADRACE_TEST_VARIABLE"), std::nullopt);
}

TEST(Process, AFileIsThereOrAbsentOrCannotBeRead) {
  Surroundings process = Surroundings::Process();
  std::string path = TemporaryPath();
  std::ofstream(path) << "one\ntwo";
  EXPECT_EQ(**process.read(path), "one\ntwo");
  EXPECT_EQ(*process.read(Cat(path, "/below")), std::nullopt);
  std::filesystem::remove(path);
  EXPECT_EQ(*process.read(path), std::nullopt);
  Result<std::optional<std::string>> folder = process.read("/tmp");
  EXPECT_EQ(folder.status().ToString(), "Denied: cannot read /tmp: Is a directory");
}

TEST(Process, ACommandsOutputIsTaken) {
  EXPECT_EQ(Output("printf '%s' a; echo b >&2; printf c"), "ac");
  EXPECT_EQ(Output("true"), "");
  EXPECT_EQ(Output("echo $((6 * 7)) | cat"), "42\n");
  EXPECT_EQ(Output("cat"), "") << "a command must not eat our standard input";
}

TEST(Process, MoreOutputThanAPipeHoldsIsTaken) { EXPECT_EQ(Output("head -c 1000000 /dev/zero | tr '\\0' x").size(), 1000000u); }

TEST(Process, FarTooMuchOutputIsRefused) { EXPECT_THAT(Output("yes"), HasSubstr("printed too much to be credentials")); }

TEST(Process, AFailedCommandPassesOnItsComplaint) {
  EXPECT_EQ(Output("echo please log in >&2; exit 3"), "Denied: the command ended with status 3 and said: please log in");
  EXPECT_EQ(Output("exit 3"), "Denied: the command ended with status 3 and said nothing");
  EXPECT_THAT(Output("/nowhere/keys"),
              AllOf(HasSubstr("InvalidArgument: the command ended with status 127 and said: "), HasSubstr("/nowhere/keys")));
  EXPECT_EQ(Output("kill -9 $$"), "Unavailable: the command was ended by signal 9 and said nothing");
}

TEST(Process, OnlyTheEndOfALongComplaintIsPassedOn) {
  std::string told = Output("head -c 100000 /dev/zero | tr '\\0' x >&2; echo the end >&2; exit 1");
  EXPECT_THAT(told, HasSubstr("xthe end"));
  EXPECT_LT(told.size(), 3000u);
}

// Ended, if perhaps not yet buried.
bool IsGone(const std::string& pid) {
  std::string state;
  std::ifstream stat(Cat("/proc/", pid, "/stat"));
  return !(stat >> state >> state >> state) || state == "Z" || state == "X";
}

TEST(Process, TheDeadlineEndsACommandAndItsChildren) {
  std::string path = TemporaryPath();
  std::string told, child;
  // A busy machine may need longer to come as far as the child.
  for (Duration time = 300ms; child.empty() && time < 2min; time *= 3) {
    told = Output(Cat("echo asking >&2; sleep 600 & echo $! > ", path, "; wait"), Deadline::After(RealClock(), time));
    EXPECT_THAT(told, HasSubstr("Timeout: running the command: out of time"));
    std::ifstream(path) >> child;
    std::filesystem::remove(path);
  }
  ASSERT_NE(child, "");
  EXPECT_EQ(told, "Timeout: running the command: out of time; it said: asking");
  for (int attempt = 0; attempt < 6000 && !IsGone(child); ++attempt) RealClock().SleepFor(10ms);
  EXPECT_TRUE(IsGone(child)) << "the command's child " << child << " lives on";
}

TEST(Process, AStopRequestEndsACommand) {
  std::stop_source stop;
  std::jthread later([&] {
    RealClock().SleepFor(100ms);
    stop.request_stop();
  });
  EXPECT_THAT(Output("sleep 60", Deadline::OnlyStop(stop.get_token())), HasSubstr("Cancelled"));
}

TEST(Process, AChildThatLivesOnIsNotWaitedFor) {
  std::string child(Trim(Output("sleep 600 & echo $!")));
  uint64_t pid = 0;
  ASSERT_TRUE(ParseNumber(child, pid)) << child;
  EXPECT_FALSE(IsGone(child)) << child;
  ::kill(static_cast<pid_t>(pid), SIGKILL);
}

}  // namespace
}  // namespace headrace
