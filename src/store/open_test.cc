#include "store/open.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <future>
#include <map>

#include "base/metrics.h"
#include "base/quiet_threads.h"

namespace headrace {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

// Variables and files of a machine that is not there.
struct FakeMachine {
  std::map<std::string, std::string> variables = {{"HOME", "/home/u"}};
  std::map<std::string, std::string> files;

  Surroundings AsSurroundings() const {
    Surroundings surroundings;
    surroundings.env = [this](const std::string& name) -> std::optional<std::string> {
      auto found = variables.find(name);
      return found == variables.end() ? std::nullopt : std::optional(found->second);
    };
    surroundings.read = [this](const std::string& path) -> Result<std::optional<std::string>> {
      auto found = files.find(path);
      return found == files.end() ? std::optional<std::string>() : std::optional(found->second);
    };
    surroundings.run = [](const std::string&, const Deadline&) -> Result<std::string> {
      return Status(Code::kDenied, "nothing runs here");
    };
    return surroundings;
  }

  S3Setup Configure(const std::string& uri, const StorageOptions& options = {}) const {
    StoreUri parsed = *ParseStoreUri(uri);
    Result<S3Setup> setup = ConfigureS3(parsed, *ReadStoreSettings(parsed, options), AsSurroundings());
    EXPECT_TRUE(setup.ok()) << setup.status().ToString();
    return setup.ok() ? *setup : S3Setup{};
  }
};

TEST(ConfigureS3, TheMoreExplicitWins) {
  FakeMachine machine;
  EXPECT_EQ(machine.Configure("s3://lake").config.region, "us-east-1");
  machine.files["/home/u/.aws/config"] = "[default]\nregion = of-profile\nendpoint_url = http://127.0.0.1:1\n";
  EXPECT_EQ(machine.Configure("s3://lake").config.region, "of-profile");
  machine.variables["AWS_DEFAULT_REGION"] = "of-default";
  EXPECT_EQ(machine.Configure("s3://lake").config.region, "of-default");
  machine.variables["AWS_REGION"] = "of-environment";
  EXPECT_EQ(machine.Configure("s3://lake").config.region, "of-environment");
  EXPECT_EQ(machine.Configure("s3://lake?region=of-uri").config.region, "of-uri");
  EXPECT_EQ(machine.Configure("s3://lake?region=of-uri", {{"region", "of-options"}}).config.region, "of-options");
}

TEST(ConfigureS3, EndpointsComeFromTheSamePlaces) {
  FakeMachine machine;
  EXPECT_EQ(machine.Configure("s3://lake").config.endpoint, "");
  machine.files["/home/u/.aws/config"] = "[default]\nendpoint_url = http://127.0.0.1:1\n";
  EXPECT_EQ(machine.Configure("s3://lake").config.endpoint, "http://127.0.0.1:1");
  machine.variables["AWS_ENDPOINT_URL"] = "http://127.0.0.1:2";
  EXPECT_EQ(machine.Configure("s3://lake").config.endpoint, "http://127.0.0.1:2");
  machine.variables["AWS_ENDPOINT_URL_S3"] = "http://127.0.0.1:3";
  EXPECT_EQ(machine.Configure("s3://lake").config.endpoint, "http://127.0.0.1:3");
  machine.variables["AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"] = "true";
  EXPECT_EQ(machine.Configure("s3://lake").config.endpoint, "");
  EXPECT_EQ(machine.Configure("s3://lake?endpoint=http://127.0.0.1:4").config.endpoint, "http://127.0.0.1:4");
}

TEST(ConfigureS3, TheNamedProfileIsAsked) {
  FakeMachine machine;
  machine.files["/home/u/.aws/config"] = "[default]\nregion = a\n[profile dev]\nregion = b\n";
  EXPECT_EQ(machine.Configure("s3://lake?profile=dev").config.region, "b");
  EXPECT_EQ(machine.Configure("s3://lake?profile=dev").credentials.profile, "dev");
  machine.variables["AWS_PROFILE"] = "dev";
  EXPECT_EQ(machine.Configure("s3://lake").config.region, "b");
}

TEST(ConfigureS3, EveryOptionReachesTheStore) {
  FakeMachine machine;
  machine.variables["AWS_CA_BUNDLE"] = "/ca-of-environment.pem";
  S3Setup setup = machine.Configure(
      "s3://lake/runs/a?addressing=virtual&allow_http=true&requester_pays=true&express=false&connect_timeout=3s"
      "&multipart_threshold=100MiB&part_size=10MiB",
      {{"access_key_id", "k"}, {"secret_access_key", "s"}, {"session_token", "t"}});
  EXPECT_EQ(setup.config.bucket, "lake");
  EXPECT_EQ(setup.config.prefix, "runs/a");
  EXPECT_EQ(setup.config.addressing, S3Config::Addressing::kVirtual);
  EXPECT_TRUE(setup.config.allow_http);
  EXPECT_TRUE(setup.config.requester_pays);
  EXPECT_EQ(setup.config.express, false);
  EXPECT_EQ(setup.config.multipart_threshold, 100u << 20);
  EXPECT_EQ(setup.config.part_bytes, 10u << 20);
  EXPECT_EQ(setup.connections.connect_timeout, 3s);
  EXPECT_EQ(setup.connections.ca_file, "/ca-of-environment.pem");
  EXPECT_EQ(setup.credentials.access_key_id, "k");
  EXPECT_EQ(setup.credentials.secret_access_key, "s");
  EXPECT_EQ(setup.credentials.session_token, "t");
  EXPECT_FALSE(setup.config.unsigned_requests);
  EXPECT_TRUE(machine.Configure("s3://lake?unsigned").config.unsigned_requests);
  EXPECT_EQ(machine.Configure("s3://lake?ca_file=/mine.pem").connections.ca_file, "/mine.pem");
}

TEST(OpenStore, OpensEveryKindWithoutAskingAnybody) {
  FakeMachine machine;
  for (const char* uri : {"s3://lake/a?endpoint=http://127.0.0.1:1", "/nowhere/at/all", "file:///nowhere/at/all", "mem://x/y"}) {
    Result<std::shared_ptr<ObjectStore>> store = OpenStore(*ParseStoreUri(uri), {}, machine.AsSurroundings());
    ASSERT_TRUE(store.ok()) << store.status().ToString();
    EXPECT_THAT((*store)->Describe("k"), HasSubstr("/k"));
  }
  EXPECT_FALSE(std::filesystem::exists("/nowhere"));
}

TEST(OpenStore, RefusesWhatCannotBe) {
  for (const char* uri : {"nope://x", "s3://", "s3://lake?regoin=x", "mem://x?region=y"}) {
    EXPECT_FALSE(OpenStore(std::string(uri)).ok()) << uri;
  }
}

TEST(OpenStore, MemoryIsSharedByName) {
  auto a = *OpenStore("mem://shared/a"), b = *OpenStore("mem://shared/a"), other = *OpenStore("mem://shared/b");
  ASSERT_TRUE(a->Put("k", Body("v"), {}).ok());
  EXPECT_TRUE((*b->Get("k", Deadline()))->bytes.AsText() == "v");
  EXPECT_FALSE((*other->Get("k", Deadline())).has_value());
}

TEST(OpenStore, RequestsAreCounted) {
  auto store = *OpenStore("mem://counted");
  ASSERT_TRUE(store->Put("k", Body("v"), {}).ok());
  EXPECT_THAT(Metrics::Default().ToPrometheus(), HasSubstr(R"(store="mem://counted")"));
}

TEST(SharedExecutor, WorksAgainAfterAFork) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer does not let a forked child start threads";
#endif
  auto runs = [] {
    std::promise<void> done;
    SharedExecutor().Spawn([&] { done.set_value(); });
    return done.get_future().wait_for(5min) == std::future_status::ready;
  };
  ASSERT_TRUE(runs());
  AwaitQuietThreads();
  pid_t child = fork();
  if (child == 0) _exit(runs() ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace headrace
