#include "store/s3/s3_endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headrace {
namespace {

using ::testing::HasSubstr;

S3Config Bucket(std::string name, std::string endpoint = "", std::string region = "us-east-1") {
  S3Config config;
  config.bucket = std::move(name);
  config.endpoint = std::move(endpoint);
  config.region = std::move(region);
  return config;
}

std::string Where(const S3Config& config) {
  auto found = FindEndpoint(config);
  EXPECT_TRUE(found.ok()) << found.status().ToString();
  return found.ok() ? found->origin + found->path : "";
}

TEST(FindEndpoint, OfAws) {
  EXPECT_EQ(Where(Bucket("lake", "", "eu-west-1")), "https://lake.s3.eu-west-1.amazonaws.com");
  EXPECT_EQ(Where(Bucket("lake", "", "cn-north-1")), "https://lake.s3.cn-north-1.amazonaws.com.cn");
  // The certificate covers one level of names only.
  EXPECT_EQ(Where(Bucket("my.lake")), "https://s3.us-east-1.amazonaws.com/my.lake");
  S3Config path = Bucket("lake");
  path.addressing = S3Config::Addressing::kPath;
  EXPECT_EQ(Where(path), "https://s3.us-east-1.amazonaws.com/lake");
}

TEST(FindEndpoint, OfS3Express) {
  auto found = FindEndpoint(Bucket("lake--usw2-az1--x-s3", "", "us-west-2"));
  ASSERT_TRUE(found.ok());
  EXPECT_TRUE(found->express);
  EXPECT_EQ(found->origin, "https://lake--usw2-az1--x-s3.s3express-usw2-az1.us-west-2.amazonaws.com");
  EXPECT_FALSE(FindEndpoint(Bucket("lake"))->express);
  S3Config forced = Bucket("lake");
  forced.express = true;
  EXPECT_THAT(FindEndpoint(forced).status().message(), HasSubstr("has no zone in its name"));
}

TEST(FindEndpoint, OfOtherServers) {
  EXPECT_EQ(Where(Bucket("lake", "http://127.0.0.1:9000")), "http://127.0.0.1:9000/lake");
  EXPECT_EQ(Where(Bucket("lake", "https://minio.example.com/")), "https://minio.example.com/lake");
  EXPECT_EQ(Where(Bucket("lake", "https://example.com/s3/")), "https://example.com/s3/lake");
  EXPECT_EQ(Where(Bucket("lake", "http://[::1]:9000")), "http://[::1]:9000/lake");
  S3Config virtual_host = Bucket("lake", "https://r2.example.com:8443");
  virtual_host.addressing = S3Config::Addressing::kVirtual;
  EXPECT_EQ(Where(virtual_host), "https://lake.r2.example.com:8443");
}

// The signature covers the host as it is sent.
TEST(FindEndpoint, HostLeavesOutThePortThatGoesWithoutSaying) {
  EXPECT_EQ(FindEndpoint(Bucket("lake", "https://Example.com:443"))->host, "example.com");
  EXPECT_EQ(FindEndpoint(Bucket("lake", "http://127.0.0.1:80"))->host, "127.0.0.1");
  EXPECT_EQ(FindEndpoint(Bucket("lake", "http://127.0.0.1:443"))->host, "127.0.0.1:443");
}

TEST(FindEndpoint, PlainHttpOnlyToThisMachineUnlessAskedFor) {
  auto refused = FindEndpoint(Bucket("lake", "http://minio.example.com"));
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_THAT(refused.status().message(), HasSubstr("allow_http=true"));
  S3Config asked = Bucket("lake", "http://minio.example.com");
  asked.allow_http = true;
  auto allowed = FindEndpoint(asked);
  ASSERT_TRUE(allowed.ok());
  EXPECT_FALSE(allowed->tls);
  EXPECT_TRUE(FindEndpoint(Bucket("lake", "http://localhost:9000")).ok());
  for (auto elsewhere : {"http://169.254.1.1:9000", "http://127.example.com", "http://10.0.0.1"}) {
    EXPECT_EQ(FindEndpoint(Bucket("lake", elsewhere)).code(), Code::kInvalidArgument) << elsewhere;
  }
}

TEST(FindEndpoint, RefusesWhatCannotBe) {
  for (auto [config, why] :
       {std::pair{Bucket(""), "there is no bucket"},
        {Bucket("ab"), "3 to 63 characters"},
        {Bucket("la/ke"), "only letters"},
        {Bucket("-lake"), "must begin with"},
        {Bucket("la..ke"), "two dots"},
        {Bucket("lake", "minio:9000"), "must begin with https:// or http://"},
        {Bucket("lake", "ftp://minio"), "\"ftp://minio\" cannot be used: it must begin with https:// or http://"},
        {Bucket("lake", "https://"), "there is no host"},
        {Bucket("lake", "https://:9000"), "there is no host"},
        {Bucket("lake", "https://h:99999"), "the port"},
        {Bucket("lake", "https://h:x"), "the port"},
        {Bucket("lake", "https://user:secret@h"), "nothing else"},
        {Bucket("lake", "https://h/?x=1"), "nothing else"},
        {Bucket("lake", "https://h h"), "character"},
        {Bucket("lake", "", "evil.example.com/"), "cannot be a region"},
        {Bucket("lake", "", ""), "cannot be a region"}}) {
    auto found = FindEndpoint(config);
    EXPECT_EQ(found.code(), Code::kInvalidArgument) << config.bucket << ' ' << config.endpoint;
    EXPECT_THAT(found.status().message(), HasSubstr(why));
    EXPECT_THAT(found.status().message(), ::testing::Not(HasSubstr("secret")));
  }
}

}  // namespace
}  // namespace headrace
