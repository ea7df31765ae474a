#include "store/uri.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Scheme = StoreUri::Scheme;

StoreUri Parsed(const std::string& text) {
  Result<StoreUri> uri = ParseStoreUri(text);
  EXPECT_TRUE(uri.ok()) << text << ": " << uri.status().ToString();
  return uri.ok() ? *uri : StoreUri{};
}

Status Refused(const std::string& text) {
  Result<StoreUri> uri = ParseStoreUri(text);
  EXPECT_FALSE(uri.ok()) << text << " was taken";
  return uri.status();
}

TEST(StoreUri, S3HasABucketAndAPrefix) {
  StoreUri uri = Parsed("s3://lake/runs/a");
  EXPECT_EQ(uri.scheme, Scheme::kS3);
  EXPECT_EQ(uri.name, "lake");
  EXPECT_EQ(uri.path, "runs/a");
  EXPECT_EQ(Parsed("s3://lake").path, "");
  EXPECT_EQ(Parsed("s3://lake/").path, "");
  EXPECT_EQ(Parsed("s3://lake/runs/a/").path, "runs/a");
  EXPECT_EQ(Parsed("S3://lake/a").name, "lake");
}

TEST(StoreUri, EscapesAreOpenedInUrisAndOnlyThere) {
  EXPECT_EQ(Parsed("s3://lake/a%20b/%C3%BC=1+1").path, "a b/ü=1+1");
  EXPECT_EQ(Parsed("file:///data/a%20b%3Fc").path, "/data/a b?c");
  EXPECT_EQ(Parsed("/data/a%20b").path, "/data/a%20b");
  EXPECT_THAT(Refused("s3://lake/100%").message(), HasSubstr("%25"));
  EXPECT_THAT(Refused("file:///a%00b").message(), HasSubstr("zero byte"));
  EXPECT_THAT(Refused("s3://lake/a#b").message(), HasSubstr("%23"));
}

TEST(StoreUri, TheQueryBringsOptions) {
  StoreUri uri = Parsed("s3://lake/a?endpoint=http://127.0.0.1:9000&region=eu%2Dwest-1&unsigned");
  EXPECT_EQ(uri.path, "a");
  EXPECT_EQ(uri.query, (StorageOptions{{"endpoint", "http://127.0.0.1:9000"}, {"region", "eu-west-1"}, {"unsigned", "true"}}));
  EXPECT_EQ(Parsed("s3://lake?region=x").query.at("region"), "x");
  EXPECT_EQ(Parsed("file:///data?sync=false").query.at("sync"), "false");
  EXPECT_EQ(Parsed("s3://lake?").query, StorageOptions{});
  EXPECT_THAT(Refused("s3://lake?region=a&region=b").message(), HasSubstr("twice"));
}

TEST(StoreUri, FoldersComeAsPathsOrFileUris) {
  EXPECT_EQ(Parsed("file:///data/a").path, "/data/a");
  EXPECT_EQ(Parsed("file:/data/a").path, "/data/a");
  EXPECT_EQ(Parsed("file://localhost/data/a").path, "/data/a");
  for (const char* path : {"/data/a", "runs/a", "../a", ".", "a=b?c", "odd:name"}) {
    EXPECT_EQ(Parsed(path).scheme, Scheme::kFile);
    EXPECT_EQ(Parsed(path).path, path);
  }
}

TEST(StoreUri, FileUrisOfOtherMachinesAreRefused) {
  EXPECT_THAT(Refused("file://server/share").message(), AllOf(HasSubstr("server"), HasSubstr("three slashes")));
  EXPECT_THAT(Refused("file://data").message(), HasSubstr("three slashes"));
  EXPECT_THAT(Refused("file://localhost").message(), HasSubstr("path is missing"));
}

TEST(StoreUri, MemoryHasANameAndAPrefix) {
  StoreUri uri = Parsed("mem://scratch/a");
  EXPECT_EQ(uri.scheme, Scheme::kMemory);
  EXPECT_EQ(uri.name, "scratch");
  EXPECT_EQ(uri.path, "a");
  EXPECT_THAT(Refused("mem://").message(), HasSubstr("mem://name"));
}

TEST(StoreUri, OtherSchemesAreToldWhatToWriteInstead) {
  EXPECT_THAT(Refused("gs://lake/a").message(), HasSubstr("s3://bucket?endpoint=https://storage.googleapis.com"));
  EXPECT_THAT(Refused("az://lake/a").message(), HasSubstr("gateway"));
  EXPECT_THAT(Refused("http://127.0.0.1:9000/lake").message(), HasSubstr("s3://bucket?endpoint=http://"));
  EXPECT_THAT(Refused("s3a://lake/a").message(), HasSubstr("write s3://"));
  for (const char* text : {"gs://lake", "abfss://x", "https://x", "hdfs://x", "s3n://x"}) {
    EXPECT_EQ(Refused(text).code(), Code::kUnsupported) << text;
  }
  EXPECT_THAT(Refused("s4://lake").message(), AllOf(HasSubstr("did you mean s3://?"), HasSubstr("file:///path")));
  EXPECT_EQ(Refused("ftp+x://lake").code(), Code::kInvalidArgument);
}

TEST(StoreUri, SlipsThatWouldBecomeFoldersAreRefused) {
  EXPECT_THAT(Refused("s3:/lake").message(), HasSubstr("./s3:/lake"));
  EXPECT_THAT(Refused("s3:lake").message(), HasSubstr("s3://"));
  EXPECT_THAT(Refused("~/data").message(), HasSubstr("home"));
  EXPECT_THAT(Refused("").message(), HasSubstr("empty"));
  EXPECT_THAT(Refused("/data?sync=false").message(), HasSubstr("file:///path?sync="));
}

TEST(StoreUri, ABucketIsABucketAndNoServer) {
  EXPECT_THAT(Refused("s3://").message(), HasSubstr("bucket is missing"));
  EXPECT_THAT(Refused("s3:///a").message(), HasSubstr("bucket is missing"));
  EXPECT_THAT(Refused("s3://host:9000/lake").message(), HasSubstr("endpoint=http://host:9000"));
  EXPECT_EQ(Refused("s3://arn:aws:s3:eu-west-1:1:accesspoint/x").code(), Code::kUnsupported);
}

TEST(StoreUri, APrefixIsMadeOfRealSegments) {
  EXPECT_THAT(Refused("s3://lake/a/../b").message(), HasSubstr(".."));
  EXPECT_THAT(Refused("s3://lake/a/%2E%2E/b").message(), HasSubstr(".."));
  EXPECT_THAT(Refused("s3://lake//a").message(), HasSubstr("empty"));
  EXPECT_THAT(Refused("mem://x/..").message(), HasSubstr(".."));
}

TEST(StoreUri, SecretsAreNeverRepeated) {
  EXPECT_THAT(Refused("s3://AKIA:hush@lake/a").message(),
              AllOf(Not(HasSubstr("hush")), Not(HasSubstr("AKIA")), HasSubstr("logs")));
  EXPECT_THAT(Refused("s3://lake/..?secret_access_key=hush").message(), Not(HasSubstr("hush")));
  EXPECT_THAT(Refused("nope://lake/a?secret_access_key=hush").message(), Not(HasSubstr("hush")));
  EXPECT_THAT(Refused("s3:lake?secret_access_key=hush").message(), Not(HasSubstr("hush")));
}

TEST(StoreUri, ToStringLeavesTheOptionsOut) {
  EXPECT_EQ(Parsed("s3://lake/a?region=x").ToString(), "s3://lake/a");
  EXPECT_EQ(Parsed("s3://lake").ToString(), "s3://lake");
  EXPECT_EQ(Parsed("file:///data/a?sync=true").ToString(), "/data/a");
  EXPECT_EQ(Parsed("mem://x").ToString(), "mem://x");
}

}  // namespace
}  // namespace headrace
