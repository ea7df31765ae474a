#include "store/s3/signer.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace headrace {
namespace {

WallTime At(std::chrono::year_month_day day, std::chrono::seconds time) { return std::chrono::sys_days(day) + time; }

Credentials KeyPair(std::string id, std::string secret) {
  Credentials credentials;
  credentials.access_key_id = std::move(id);
  credentials.secret_access_key = std::move(secret);
  return credentials;
}

// The examples of "Signature Calculations for the Authorization Header" in the S3 API reference.
class PublishedS3Example : public ::testing::Test {
 protected:
  Signature Sign(std::string method, std::string path, NamedValues query, NamedValues headers, std::string payload_hash) {
    headers.insert(
        headers.end(),
        {{"Host", "examplebucket.s3.amazonaws.com"}, {"x-amz-content-sha256", payload_hash}, {"x-amz-date", "20130524T000000Z"}});
    Credentials credentials = KeyPair("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY");
    return signer_.Sign({method, path, query, headers, payload_hash}, credentials,
                        At({std::chrono::year(2013), std::chrono::May, std::chrono::day(24)}, {}));
  }

  const std::string nothing_{kEmptyPayloadHash};
  Signer signer_{"us-east-1", "s3"};
};

TEST_F(PublishedS3Example, GetObjectWithRange) {
  Signature got = Sign("GET", "/test.txt", {}, {{"Range", "bytes=0-9"}}, nothing_);
  EXPECT_EQ(got.canonical_request,
            "GET\n"
            "/test.txt\n"
            "\n"
            "host:examplebucket.s3.amazonaws.com\n"
            "range:bytes=0-9\n"
            "x-amz-content-sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n"
            "x-amz-date:20130524T000000Z\n"
            "\n"
            "host;range;x-amz-content-sha256;x-amz-date\n"
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(got.string_to_sign,
            "AWS4-HMAC-SHA256\n"
            "20130524T000000Z\n"
            "20130524/us-east-1/s3/aws4_request\n"
            "7344ae5b7ee6c3e7e6b0fe0640412a37625d1fbfff95c48bbb2dc43964946972");
  EXPECT_EQ(got.signature, "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  EXPECT_EQ(got.authorization,
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
            "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
            "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

TEST_F(PublishedS3Example, PutObject) {
  Signature got = Sign("PUT", "/test%24file.text", {},
                       {{"Date", "Fri, 24 May 2013 00:00:00 GMT"}, {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
                       Sha256Hex("Welcome to Amazon S3."));
  EXPECT_TRUE(got.string_to_sign.ends_with("9e0e90d9c76de8fa5b200d8c849cd5b8dc7a3be3951ddb7f6a76b4158342019d"));
  EXPECT_EQ(got.signature, "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
}

TEST_F(PublishedS3Example, ParameterWithoutValue) {
  Signature got = Sign("GET", "/", {{"lifecycle", ""}}, {}, nothing_);
  EXPECT_TRUE(got.canonical_request.starts_with("GET\n/\nlifecycle=\n"));
  EXPECT_TRUE(got.string_to_sign.ends_with("9766c798316ff2757b517bc739a67f6213b4ab36dd5da2f94eaebf79c77395ca"));
  EXPECT_EQ(got.signature, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
}

TEST_F(PublishedS3Example, ListObjects) {
  Signature got = Sign("GET", "/", {{"prefix", "J"}, {"max-keys", "2"}}, {}, nothing_);
  EXPECT_TRUE(got.string_to_sign.ends_with("df57d21db20da04d7fa30298dd4488ba3a2b47ca3a489c74750e0f1e7df1b9b7"));
  EXPECT_EQ(got.signature, "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

// The signature test suite that AWS published for all services; those of its cases where S3's rules are the same.
struct SuiteCase {
  std::string name;
  std::string method;
  std::string path;
  NamedValues query;
  NamedValues headers;
  std::string body;
  std::string signature;
};

class PublishedSuite : public ::testing::TestWithParam<SuiteCase> {};

TEST_P(PublishedSuite, SignsAlike) {
  SuiteCase want = GetParam();
  want.headers.insert(want.headers.end(), {{"Host", "example.amazonaws.com"}, {"X-Amz-Date", "20150830T123600Z"}});
  Credentials credentials = KeyPair("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");
  Signature got = Signer("us-east-1", "service")
                      .Sign({want.method, want.path, want.query, want.headers, Sha256Hex(want.body)}, credentials,
                            At({std::chrono::year(2015), std::chrono::August, std::chrono::day(30)},
                               std::chrono::hours(12) + std::chrono::minutes(36)));
  EXPECT_EQ(got.signature, want.signature) << got.canonical_request << "\n\n" << got.string_to_sign;
}

const std::string kUnreserved = "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

INSTANTIATE_TEST_SUITE_P(
    All, PublishedSuite,
    ::testing::Values(
        SuiteCase{"get_vanilla", "GET", "/", {}, {}, "", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
        SuiteCase{"post_vanilla", "POST", "/", {}, {}, "", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
        SuiteCase{"get_vanilla_query_order_key_case",
                  "GET",
                  "/",
                  {{"Param2", "value2"}, {"Param1", "value1"}},
                  {},
                  "",
                  "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
        SuiteCase{"get_vanilla_query_order_value",
                  "GET",
                  "/",
                  {{"Param1", "value2"}, {"Param1", "value1"}},
                  {},
                  "",
                  "5772eed61e12b33fae39ee5e7012498b51d56abc0abb7c60486157bd471c4694"},
        SuiteCase{"get_vanilla_query_unreserved",
                  "GET",
                  "/",
                  {{kUnreserved, kUnreserved}},
                  {},
                  "",
                  "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197"},
        SuiteCase{"get_vanilla_utf8_query",
                  "GET",
                  "/",
                  {{"ሴ", "bar"}},
                  {},
                  "",
                  "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04"},
        SuiteCase{"get_utf8",
                  "GET",
                  PercentEncode("/ሴ", true),
                  {},
                  {},
                  "",
                  "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"},
        SuiteCase{"get_unreserved",
                  "GET",
                  PercentEncode("/" + kUnreserved, true),
                  {},
                  {},
                  "",
                  "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"},
        SuiteCase{"get_space",
                  "GET",
                  PercentEncode("/example space/", true),
                  {},
                  {},
                  "",
                  "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741"},
        SuiteCase{"get_header_value_trim",
                  "GET",
                  "/",
                  {},
                  {{"My-Header1", " value1"}, {"My-Header2", " \"a   b   c\""}},
                  "",
                  "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"},
        SuiteCase{"post_x_www_form_urlencoded",
                  "POST",
                  "/",
                  {},
                  {{"Content-Type", "application/x-www-form-urlencoded"}},
                  "Param1=value1",
                  "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"}),
    [](const auto& one) { return one.param.name; });

TEST(Signer, NewSecretOrDayMeansNewKey) {
  Signer signer("us-east-1", "s3");
  SignableRequest request{"GET", "/", {}, {{"host", "h"}, {"x-amz-date", "x"}}, std::string(kEmptyPayloadHash)};
  Credentials first = KeyPair("A", "one"), second = KeyPair("A", "two");
  WallTime day = At({std::chrono::year(2024), std::chrono::January, std::chrono::day(1)}, {});
  auto fresh = [&](const Credentials& who, WallTime at) { return Signer("us-east-1", "s3").Sign(request, who, at).signature; };
  for (const auto& [who, at] : {std::pair(first, day), {second, day}, {second, day + std::chrono::hours(24)}, {first, day}}) {
    EXPECT_EQ(signer.Sign(request, who, at).signature, fresh(who, at));
  }
}

TEST(EncodeQuery, NamesWithoutValuesStandAlone) {
  EXPECT_EQ(EncodeQuery({{"uploads", ""}, {"prefix", "a b/ü+="}}), "uploads&prefix=a%20b%2F%C3%BC%2B%3D");
}

}  // namespace
}  // namespace headrace
