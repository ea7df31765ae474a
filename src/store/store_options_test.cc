#include "store/store_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

StoreUri S3(StorageOptions query = {}) {
  return {.scheme = StoreUri::Scheme::kS3, .name = "lake", .path = "a", .query = std::move(query)};
}
StoreUri Folder(StorageOptions query = {}) {
  return {.scheme = StoreUri::Scheme::kFile, .name = "", .path = "/data", .query = std::move(query)};
}

StoreSettings Read(const StoreUri& uri, const StorageOptions& options = {}) {
  Result<StoreSettings> settings = ReadStoreSettings(uri, options);
  EXPECT_TRUE(settings.ok()) << settings.status().ToString();
  return settings.ok() ? *settings : StoreSettings{};
}

std::string Refused(const StoreUri& uri, const StorageOptions& options = {}) {
  Result<StoreSettings> settings = ReadStoreSettings(uri, options);
  EXPECT_FALSE(settings.ok());
  EXPECT_EQ(settings.code(), Code::kInvalidArgument);
  return settings.ok() ? "" : settings.status().message();
}

TEST(StoreOptions, ValuesComeInHumanUnits) {
  StoreSettings settings = Read(S3({{"timeout", "500ms"},
                                    {"connect_timeout", "3s"},
                                    {"part_size", "8MiB"},
                                    {"multipart_threshold", "1GB"},
                                    {"concurrency", "32"},
                                    {"retries", "0"},
                                    {"addressing", "virtual"},
                                    {"unsigned", "yes"}}));
  EXPECT_EQ(settings.timeout, 500ms);
  EXPECT_EQ(settings.connect_timeout, 3s);
  EXPECT_EQ(settings.part_size, 8u << 20);
  EXPECT_EQ(settings.multipart_threshold, 1'000'000'000u);
  EXPECT_EQ(settings.concurrency, 32u);
  EXPECT_EQ(settings.retries, 0u);
  EXPECT_EQ(settings.addressing, S3Config::Addressing::kVirtual);
  EXPECT_EQ(settings.unsigned_requests, true);
  EXPECT_EQ(settings.region, std::nullopt);
}

TEST(StoreOptions, StorageOptionsWinOverTheUri) {
  StoreSettings settings = Read(S3({{"region", "from-uri"}, {"endpoint", "http://127.0.0.1:1"}}), {{"region", "from-options"}});
  EXPECT_EQ(settings.region, "from-options");
  EXPECT_EQ(settings.endpoint, "http://127.0.0.1:1");
}

// Every row of the table has a place to go to, takes a right value and refuses a wrong one.
TEST(StoreOptions, EveryRowOfTheTableIsReadAndChecked) {
  using Kind = StoreOption::Kind;
  for (const StoreOption& option : AllStoreOptions()) {
    StoreUri uri = option.s3 ? S3() : Folder();
    std::string right, wrong;
    switch (option.kind) {
      case Kind::kText:
        right = "x";
        wrong = "";
        break;
      case Kind::kFlag:
        right = "false";
        wrong = "maybe";
        break;
      case Kind::kSize:
        right = "64MiB";
        wrong = "large";
        break;
      case Kind::kDuration:
        right = "20s";
        wrong = "0s";
        break;
      case Kind::kCount:
        right = "7";
        wrong = "-7";
        break;
      case Kind::kAddressing:
        right = "path";
        wrong = "host";
        break;
    }
    StorageOptions options = {{std::string(option.name), right}};
    if (option.name == "access_key_id" || option.name == "session_token") options["secret_access_key"] = "y";
    if (option.name == "secret_access_key" || option.name == "session_token") options["access_key_id"] = "y";
    Read(uri, options);
    EXPECT_THAT(Refused(uri, {{std::string(option.name), wrong}}), HasSubstr(option.name));
  }
}

TEST(StoreOptions, UnknownNamesAreToldTheNearOne) {
  EXPECT_THAT(Refused(S3({{"regoin", "x"}})), HasSubstr("did you mean \"region\"?"));
  EXPECT_THAT(Refused(S3(), {{"AWS_REGION", "x"}}), HasSubstr("did you mean \"region\"?"));
  EXPECT_THAT(Refused(S3({{"endpoint_url", "x"}})), HasSubstr("did you mean \"endpoint\"?"));
  EXPECT_THAT(Refused(S3({{"anon", "x"}})), HasSubstr("did you mean \"unsigned\"?"));
  EXPECT_THAT(Refused(S3({{"part-size", "x"}})), HasSubstr("did you mean \"part_size\"?"));
  EXPECT_THAT(Refused(S3({{"qqqqqqq", "x"}})), AllOf(HasSubstr("there are endpoint, region"), HasSubstr("sync")));
}

TEST(StoreOptions, OptionsOfAnotherKindOfStoreAreRefused) {
  EXPECT_THAT(Refused(Folder({{"region", "x"}})), HasSubstr("not for a folder"));
  EXPECT_THAT(Refused(S3({{"sync", "false"}})), HasSubstr("not for an S3 bucket"));
  EXPECT_EQ(Read(Folder({{"sync", "false"}})).sync, false);
}

TEST(StoreOptions, SecretsDoNotBelongIntoAUri) {
  EXPECT_THAT(Refused(S3({{"access_key_id", "AKIA"}, {"secret_access_key", "hush"}})),
              AllOf(HasSubstr("logs"), HasSubstr("AWS_SECRET_ACCESS_KEY"), Not(HasSubstr("hush"))));
  EXPECT_THAT(Refused(S3({{"session_token", "hush"}})), AllOf(HasSubstr("AWS_SESSION_TOKEN"), Not(HasSubstr("hush"))));
  StoreSettings settings = Read(S3(), {{"access_key_id", "AKIA"}, {"secret_access_key", "hush"}, {"session_token", "t"}});
  EXPECT_EQ(settings.secret_access_key, "hush");
}

TEST(StoreOptions, ContradictionsAreRefused) {
  EXPECT_THAT(Refused(S3(), {{"access_key_id", "AKIA"}}), HasSubstr("without secret_access_key"));
  EXPECT_THAT(Refused(S3(), {{"secret_access_key", "x"}}), HasSubstr("without access_key_id"));
  EXPECT_THAT(Refused(S3(), {{"session_token", "x"}}), HasSubstr("without access_key_id"));
  EXPECT_THAT(Refused(S3({{"unsigned", "true"}, {"profile", "dev"}})), HasSubstr("contradict"));
}

TEST(StoreOptions, LimitsOfTheStoreAreKnown) {
  EXPECT_THAT(Refused(S3({{"part_size", "1MiB"}})), HasSubstr("5MiB"));
  EXPECT_THAT(Refused(S3({{"concurrency", "0"}})), HasSubstr("1 to 4096"));
}

}  // namespace
}  // namespace headrace
