#include "store/s3/credentials_role.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/simulation.h"
#include "store/s3/credentials_answer.h"
#include "store/s3/credentials_fakes.h"
#include "store/s3/credentials_sts.h"

namespace headrace {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr char kConfig[] = "/home/ann/.aws/config";
constexpr char kRole[] = "arn:aws:iam::123456789012:role/trainer";

std::string StsAnswer(const std::string& action, const std::string& id) {
  return Cat("<", action, "Response xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\n <", action,
             "Result>\n  <Credentials>\n   <AccessKeyId>", id,
             "</AccessKeyId>\n   <SecretAccessKey>hush</SecretAccessKey>\n   <SessionToken>mum&amp;mum</SessionToken>\n",
             "   <Expiration>2099-01-02T03:04:05Z</Expiration>\n  </Credentials>\n </", action, "Result>\n</", action,
             "Response>");
}

std::string StsError(const std::string& code, const std::string& message) {
  return Cat("<ErrorResponse><Error><Type>Sender</Type><Code>", code, "</Code><Message>", message,
             "</Message></Error></ErrorResponse>");
}

class Role : public testing::Test {
 protected:
  using Look = Result<CredentialFinding> (*)(const CredentialSearch&, const Deadline&);

  std::string Told(Look look, std::optional<std::string> profile = {}) {
    std::string told;
    simulation_.Run([&] {
      CredentialSearch search{{}, surroundings_.Get(), http_, simulation_};
      search.options.profile = std::move(profile);
      search.options.region = region_;
      Result<CredentialFinding> finding = look(search, Deadline());
      if (!finding.ok()) {
        told = finding.status().ToString();
      } else if (!finding->credentials) {
        told = Cat("nothing: ", finding->reason);
      } else {
        told = Cat(finding->credentials->access_key_id, " ", finding->credentials->session_token, " from ",
                   finding->credentials->origin);
      }
    });
    return told;
  }
  std::string WebIdentity(std::optional<std::string> profile = {}) { return Told(LookForWebIdentity, std::move(profile)); }
  std::string Assumed(std::optional<std::string> profile = {}) { return Told(LookForAssumedRole, std::move(profile)); }

  std::string Form() const { return http_->requests.back().body.Join().ToString(); }

  // STS hands out ASIA1, ASIA2, … one for each call.
  void ServeSts(const std::string& endpoint) {
    http_->On(Cat("POST ", endpoint, "/"), [this](const HttpRequest& request) {
      std::string form = request.body.Join().ToString();
      std::string action = form.find("WithWebIdentity") != std::string::npos ? "AssumeRoleWithWebIdentity" : "AssumeRole";
      return FakeHttp::Answer(200, StsAnswer(action, Cat("ASIA", ++calls_)));
    });
  }

  Simulation simulation_{1};
  FakeSurroundings surroundings_;
  std::string region_ = "eu-west-1";
  int calls_ = 0;
  std::shared_ptr<FakeHttp> http_ = std::make_shared<FakeHttp>(simulation_);
};

TEST_F(Role, WebIdentityOfTheEnvironment) {
  ServeSts("https://sts.eu-west-1.amazonaws.com");
  EXPECT_THAT(WebIdentity(),
              HasSubstr("nothing: neither AWS_WEB_IDENTITY_TOKEN_FILE nor web_identity_token_file of profile default"));
  surroundings_.env["AWS_WEB_IDENTITY_TOKEN_FILE"] = "/token";
  surroundings_.env["AWS_ROLE_ARN"] = kRole;
  surroundings_.env["AWS_ROLE_SESSION_NAME"] = "run 7";
  surroundings_.files["/token"] = "jwt.one\n";
  EXPECT_EQ(WebIdentity(), Cat("ASIA1 mum&mum from role ", kRole, " by web identity"));
  EXPECT_EQ(Form(),
            "Action=AssumeRoleWithWebIdentity&RoleArn=arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Ftrainer&RoleSessionName=run%207"
            "&WebIdentityToken=jwt.one&Version=2011-06-15");
  EXPECT_EQ(HeaderOf(http_->requests.back(), "authorization"), "(none)");
  surroundings_.files["/token"] = "jwt.two";
  WebIdentity();
  EXPECT_THAT(Form(), HasSubstr("WebIdentityToken=jwt.two"));
}

TEST_F(Role, WebIdentityOfAProfile) {
  ServeSts("https://sts.eu-west-1.amazonaws.com");
  surroundings_.files[kConfig] = Cat("[profile pod]\nweb_identity_token_file = /token\nrole_arn = ", kRole, "\n");
  surroundings_.files["/token"] = "jwt";
  EXPECT_EQ(WebIdentity("pod"), Cat("ASIA1 mum&mum from role ", kRole, " by web identity"));
  EXPECT_THAT(Form(), HasSubstr("RoleSessionName=headrace-1800000000"));
}

TEST_F(Role, WebIdentityOfTheEnvironmentGivesWayToAProfileAskedForByName) {
  surroundings_.env["AWS_WEB_IDENTITY_TOKEN_FILE"] = "/token";
  surroundings_.env["AWS_ROLE_ARN"] = kRole;
  surroundings_.files["/token"] = "jwt";
  surroundings_.files[kConfig] = "[profile dev]\nregion = eu-west-1\n";
  EXPECT_EQ(WebIdentity("dev"), "nothing: web_identity_token_file of profile dev is not set");
}

TEST_F(Role, WebIdentityThatIsHalfSetUpIsAnError) {
  surroundings_.env["AWS_WEB_IDENTITY_TOKEN_FILE"] = "/token";
  EXPECT_EQ(
      WebIdentity(),
      "InvalidArgument: a web identity token is given (/token) but no role: set AWS_ROLE_ARN, or role_arn in profile default");
  surroundings_.env["AWS_ROLE_ARN"] = kRole;
  EXPECT_EQ(WebIdentity(), "Denied: the web identity token /token does not exist");
  surroundings_.files["/token"] = " \n";
  EXPECT_EQ(WebIdentity(), "Denied: the web identity token /token is empty");
}

TEST_F(Role, StsRefusalSaysWhyButNotTheToken) {
  surroundings_.env["AWS_WEB_IDENTITY_TOKEN_FILE"] = "/token";
  surroundings_.env["AWS_ROLE_ARN"] = kRole;
  surroundings_.files["/token"] = "jwt.hush";
  auto answer = [&](int status, const std::string& body) {
    http_->On("POST https://sts.eu-west-1.amazonaws.com/", status, body);
    std::string told = WebIdentity();
    EXPECT_THAT(told, Not(HasSubstr("hush")));
    return told;
  };
  EXPECT_EQ(answer(400, StsError("InvalidIdentityToken", "jwt.hush is &quot;bad&quot;")),
            Cat("Denied: sts.eu-west-1.amazonaws.com refused role ", kRole,
                " by web identity: 400 InvalidIdentityToken: *** is \"bad\""));
  EXPECT_THAT(answer(403, StsError("AccessDenied", "no")), HasSubstr("Denied: "));
  EXPECT_THAT(answer(400, StsError("Throttling", "slow")), HasSubstr("Throttled: "));
  EXPECT_THAT(answer(400, StsError("IDPCommunicationError", "later")), HasSubstr("Unavailable: "));
  EXPECT_THAT(answer(503, "<html>"), HasSubstr("Unavailable: "));
  EXPECT_THAT(answer(200, "<html>hush</html>"), HasSubstr("answered 200 but without credentials"));
  EXPECT_THAT(answer(200, ""), HasSubstr("answered 200 but without credentials"));
}

TEST_F(Role, StsIsWhereItIsSaidToBe) {
  auto endpoint = [&](std::optional<std::string> of_profile = {}) {
    CredentialSearch search{{}, surroundings_.Get(), http_, simulation_};
    search.options.region = region_;
    Result<std::string> url = StsEndpoint(search, of_profile);
    return url.ok() ? *url : url.status().ToString();
  };
  EXPECT_EQ(endpoint(), "https://sts.eu-west-1.amazonaws.com");
  region_ = "cn-north-1";
  EXPECT_EQ(endpoint(), "https://sts.cn-north-1.amazonaws.com.cn");
  region_ = "";
  EXPECT_EQ(endpoint(), "https://sts.amazonaws.com");
  region_ = "evil.example/";
  EXPECT_EQ(endpoint(), "InvalidArgument: \"evil.example/\" is not the name of an AWS region like eu-west-1");
  EXPECT_EQ(endpoint("http://127.0.0.1:3"), "http://127.0.0.1:3");
  surroundings_.env["AWS_ENDPOINT_URL"] = "http://127.0.0.1:2/";
  EXPECT_EQ(endpoint("http://127.0.0.1:3"), "http://127.0.0.1:2");
  surroundings_.env["AWS_ENDPOINT_URL_STS"] = "http://127.0.0.1:1";
  EXPECT_EQ(endpoint(), "http://127.0.0.1:1");
  region_ = "eu-west-1";
  surroundings_.env["AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"] = "true";
  EXPECT_EQ(endpoint("http://127.0.0.1:3"), "https://sts.eu-west-1.amazonaws.com");
  surroundings_.env.erase("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS");
  for (const char* wrong : {"sts.example", "ftp://x", "https://", "https:///x", "https://a@b", "https://a b", "https://a?b"}) {
    surroundings_.env["AWS_ENDPOINT_URL_STS"] = wrong;
    EXPECT_THAT(endpoint(), HasSubstr("InvalidArgument: the endpoint set for STS")) << wrong;
  }
}

TEST_F(Role, AssumedWithTheKeysOfAnotherProfile) {
  ServeSts("https://sts.eu-west-1.amazonaws.com");
  surroundings_.files["/home/ann/.aws/credentials"] = "[base]\naws_access_key_id = AKIA0\naws_secret_access_key = S\n";
  surroundings_.files[kConfig] =
      Cat("[profile train]\nrole_arn = ", kRole, "\nsource_profile = base\nexternal_id = x/1\nduration_seconds = 900\n",
          "role_session_name = me\n");
  EXPECT_EQ(Assumed("train"), Cat("ASIA1 mum&mum from role ", kRole, " of profile train"));
  EXPECT_EQ(Form(),
            "Action=AssumeRole&RoleArn=arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Ftrainer&RoleSessionName=me&ExternalId=x%2F1"
            "&DurationSeconds=900&Version=2011-06-15");
  EXPECT_THAT(
      HeaderOf(http_->requests.back(), "authorization"),
      HasSubstr(
          "AWS4-HMAC-SHA256 Credential=AKIA0/20270115/eu-west-1/sts/aws4_request, SignedHeaders=content-type;host;x-amz-date, Signature="));
}

TEST_F(Role, AssumedInAChain) {
  ServeSts("https://sts.eu-west-1.amazonaws.com");
  surroundings_.files[kConfig] =
      "[profile a]\nrole_arn = arn:a\nsource_profile = b\n[profile b]\nrole_arn = arn:b\nsource_profile = c\n"
      "[profile c]\ncredential_process = keys\n";
  surroundings_.commands.emplace("keys", R"({"Version": 1, "AccessKeyId": "AKIA0", "SecretAccessKey": "S"})");
  EXPECT_EQ(Assumed("a"), "ASIA2 mum&mum from role arn:a of profile a");
  ASSERT_EQ(http_->requests.size(), 2u);
  EXPECT_THAT(HeaderOf(http_->requests[0], "authorization"), HasSubstr("Credential=AKIA0/"));
  EXPECT_THAT(HeaderOf(http_->requests[1], "authorization"), HasSubstr("Credential=ASIA1/"));
  EXPECT_EQ(HeaderOf(http_->requests[1], "x-amz-security-token"), "mum&mum");
}

TEST_F(Role, AssumedByAProfileThatIsItsOwnSource) {
  ServeSts("https://sts.eu-west-1.amazonaws.com");
  surroundings_.files[kConfig] =
      "[default]\nrole_arn = arn:a\nsource_profile = default\naws_access_key_id = AKIA0\naws_secret_access_key = S\n";
  EXPECT_EQ(Assumed(), "ASIA1 mum&mum from role arn:a of profile default");
}

TEST_F(Role, AssumedFromANamedSource) {
  ServeSts("https://sts.eu-west-1.amazonaws.com");
  surroundings_.files[kConfig] = "[profile a]\nrole_arn = arn:a\ncredential_source = Environment\n";
  EXPECT_EQ(Assumed("a"), "Denied: credential_source Environment of profile a has no credentials: AWS_ACCESS_KEY_ID is not set");
  surroundings_.env["AWS_ACCESS_KEY_ID"] = "AKIA0";
  surroundings_.env["AWS_SECRET_ACCESS_KEY"] = "S";
  EXPECT_EQ(Assumed("a"), "ASIA1 mum&mum from role arn:a of profile a");
  surroundings_.files[kConfig] = "[profile a]\nrole_arn = arn:a\ncredential_source = EcsContainer\n";
  surroundings_.env["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = "http://127.0.0.1/keys";
  http_->On("GET http://127.0.0.1/keys", 200, R"({"AccessKeyId": "AKIA9", "SecretAccessKey": "S", "Token": "T"})");
  EXPECT_EQ(Assumed("a"), "ASIA2 mum&mum from role arn:a of profile a");
  EXPECT_THAT(HeaderOf(http_->requests.back(), "authorization"), HasSubstr("Credential=AKIA9/"));
  surroundings_.files[kConfig] = "[profile a]\nrole_arn = arn:a\ncredential_source = Ec2InstanceMetadata\n";
  EXPECT_THAT(Assumed("a"), HasSubstr("has no credentials: not asked, because AWS_EC2_METADATA_DISABLED is set"));
  surroundings_.files[kConfig] = "[profile a]\nrole_arn = arn:a\ncredential_source = Moon\n";
  EXPECT_THAT(Assumed("a"), HasSubstr("config:1: profile a has credential_source = Moon; it can be Environment"));
}

TEST_F(Role, AssumedIsNothingWithoutARole) {
  EXPECT_EQ(Assumed(), "nothing: profile default has no role_arn");
  surroundings_.files[kConfig] = "[default]\nrole_arn = arn:a\nweb_identity_token_file = /token\n";
  EXPECT_EQ(Assumed(), "nothing: profile default has no role_arn");
  // The profile's role, the environment's token.
  surroundings_.files[kConfig] = "[default]\nrole_arn = arn:a\n";
  surroundings_.env["AWS_WEB_IDENTITY_TOKEN_FILE"] = "/token";
  EXPECT_EQ(Assumed(), "nothing: it goes by web identity");
}

TEST_F(Role, AssumedFromASettingThatCannotWork) {
  auto told = [&](const std::string& config) {
    surroundings_.files[kConfig] = config;
    return Assumed("a");
  };
  EXPECT_EQ(told("[profile a]\nrole_arn = arn:a\n"),
            "InvalidArgument: /home/ann/.aws/config:1: profile a has role_arn but neither source_profile nor credential_source");
  EXPECT_THAT(told("[profile a]\nrole_arn = arn:a\nsource_profile = b\ncredential_source = Environment\n"),
              HasSubstr("which is it?"));
  EXPECT_THAT(told("[profile a]\nrole_arn = arn:a\nsource_profile = b\n"),
              HasSubstr("names the source_profile b, which does not exist"));
  EXPECT_THAT(told("[profile a]\nrole_arn = arn:a\nsource_profile = a\n"), HasSubstr("leads back to itself"));
  EXPECT_THAT(told("[profile a]\nrole_arn = arn:a\nsource_profile = b\n[profile b]\nrole_arn = arn:b\nsource_profile = a\n"),
              HasSubstr("config:4: profile b names the source_profile a, which leads back to itself"));
  EXPECT_THAT(told("[profile a]\nrole_arn = arn:a\nsource_profile = b\n[profile b]\nregion = x\n"),
              HasSubstr("b, which has no credentials: "));
  EXPECT_THAT(told("[profile a]\nrole_arn = arn:a\nsource_profile = b\nmfa_serial = arn:m\n"),
              AllOf(HasSubstr("Unsupported: profile a has mfa_serial"),
                    HasSubstr("credential_process = aws configure export-credentials")));
  EXPECT_THAT(told("[profile a]\nrole_arn = arn:a\nsource_profile = b\nduration_seconds = long\n"
                   "[profile b]\naws_access_key_id = A\naws_secret_access_key = S\n"),
              HasSubstr("duration_seconds that is not a number"));
  EXPECT_TRUE(http_->requests.empty());
}

}  // namespace
}  // namespace headrace
