#include "store/s3/credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/simulation.h"
#include "store/s3/credentials_answer.h"
#include "store/s3/credentials_fakes.h"

namespace headrace {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr char kConfig[] = "/home/ann/.aws/config";

class Chain : public testing::Test {
 protected:
  std::shared_ptr<CredentialSource> Make(CredentialOptions options = {}) {
    return MakeCredentialChain(std::move(options), surroundings_.Get(), http_, simulation_, Random(1));
  }
  static std::string Told(const Result<Credentials>& credentials) {
    return credentials.ok() ? Cat(credentials->access_key_id, " from ", credentials->origin) : credentials.status().ToString();
  }
  std::string Find(CredentialOptions options = {}) {
    std::string told;
    simulation_.Run([&] { told = Told(Make(std::move(options))->Get(Deadline())); });
    return told;
  }

  std::string Json(const std::string& id, Duration lifetime = 1h) {
    return Cat(R"({"Version": 1, "AccessKeyId": ")", id,
               R"(", "SecretAccessKey": "hush", "Token": "mum", "SessionToken": "mum", "Expiration": ")",
               FormatTimestamp(simulation_.WallNow() + lifetime), "\"}");
  }
  void ServeInstance() {
    surroundings_.env.erase("AWS_EC2_METADATA_DISABLED");
    http_->On("PUT http://169.254.169.254/latest/api/token", 200, "token");
    http_->On("GET http://169.254.169.254/latest/meta-data/iam/security-credentials/", 200, "trainer");
    http_->On("GET http://169.254.169.254/latest/meta-data/iam/security-credentials/trainer",
              [this](const HttpRequest&) { return FakeHttp::Answer(200, Json(Cat("INSTANCE", ++instance_calls_))); });
  }

  Simulation simulation_{1};
  FakeSurroundings surroundings_;
  int instance_calls_ = 0;
  std::shared_ptr<FakeHttp> http_ = std::make_shared<FakeHttp>(simulation_);
};

TEST_F(Chain, TheFirstPlaceThatHasSomethingWins) {
  ServeInstance();
  EXPECT_EQ(Find(), "INSTANCE1 from instance role trainer");

  surroundings_.env["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = "http://127.0.0.1/keys";
  http_->On("GET http://127.0.0.1/keys", 200, Json("CONTAINER"));
  EXPECT_EQ(Find(), "CONTAINER from container role");

  surroundings_.files[kConfig] = "[default]\naws_access_key_id = CONFIG\naws_secret_access_key = S\n";
  EXPECT_EQ(Find(), "CONFIG from profile default");

  surroundings_.files[kConfig] += "credential_process = keys\n";
  surroundings_.commands.emplace("keys", Json("PROCESS"));
  EXPECT_EQ(Find(), "PROCESS from credential_process of profile default");

  surroundings_.files["/home/ann/.aws/credentials"] = "[default]\naws_access_key_id = SHARED\naws_secret_access_key = S\n";
  EXPECT_EQ(Find(), "SHARED from profile default");

  surroundings_.env["AWS_WEB_IDENTITY_TOKEN_FILE"] = "/token";
  surroundings_.env["AWS_ROLE_ARN"] = "arn:web";
  surroundings_.files["/token"] = "jwt";
  http_->On("POST https://sts.amazonaws.com/", [](const HttpRequest& request) {
    bool web = request.body.Join().ToString().find("WithWebIdentity") != std::string::npos;
    return FakeHttp::Answer(
        200, Cat("<Credentials><AccessKeyId>", web ? "WEB" : "ROLE", "</AccessKeyId><SecretAccessKey>hush</SecretAccessKey>",
                 "<SessionToken>mum</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials>"));
  });
  EXPECT_EQ(Find(), "WEB from role arn:web by web identity");

  surroundings_.files[kConfig] += "role_arn = arn:role\nsource_profile = default\n";
  EXPECT_EQ(Find(), "ROLE from role arn:role of profile default");

  surroundings_.env["AWS_ACCESS_KEY_ID"] = "ENV";
  surroundings_.env["AWS_SECRET_ACCESS_KEY"] = "S";
  EXPECT_EQ(Find(), "ENV from environment");

  EXPECT_EQ(Find({"OPTION", "S", {}, {}, ""}), "OPTION from the store's options");
}

TEST_F(Chain, AProfileInTheOptionsWinsOverTheEnvironmentButOneInTheEnvironmentDoesNot) {
  surroundings_.files[kConfig] = "[profile dev]\naws_access_key_id = DEV\naws_secret_access_key = S\n";
  surroundings_.env["AWS_ACCESS_KEY_ID"] = "ENV";
  surroundings_.env["AWS_SECRET_ACCESS_KEY"] = "S";
  surroundings_.env["AWS_WEB_IDENTITY_TOKEN_FILE"] = "/token";
  surroundings_.env["AWS_ROLE_ARN"] = "arn:web";
  EXPECT_EQ(Find({{}, {}, {}, "dev", ""}), "DEV from profile dev");
  EXPECT_EQ(Find({{}, {}, {}, "", ""}), "ENV from environment");
  surroundings_.env["AWS_PROFILE"] = "dev";
  EXPECT_EQ(Find(), "ENV from environment");
}

TEST_F(Chain, AProfileAskedForThatHasNoCredentialsLeavesThemToTheMachine) {
  ServeInstance();
  surroundings_.files[kConfig] = "[profile dev]\nregion = eu-west-1\n";
  EXPECT_EQ(Find({{}, {}, {}, "dev", ""}), "INSTANCE1 from instance role trainer");
  EXPECT_THAT(Find({{}, {}, {}, "prod", ""}), HasSubstr("InvalidArgument: cannot get AWS credentials: there is no profile prod"));
}

TEST_F(Chain, HalfASetOfKeysIsAnErrorThatSaysWhichHalf) {
  EXPECT_THAT(
      Find({"A", {}, {}, {}, ""}),
      HasSubstr("InvalidArgument: cannot get AWS credentials: the option access_key_id is set but secret_access_key is not"));
  EXPECT_THAT(Find({{}, "hush", {}, {}, ""}),
              AllOf(HasSubstr("secret_access_key is set but access_key_id is not"), Not(HasSubstr("hush"))));
  EXPECT_THAT(Find({{}, {}, "hush", {}, ""}),
              AllOf(HasSubstr("session_token is set but access_key_id is not"), Not(HasSubstr("hush"))));
  surroundings_.env["AWS_ACCESS_KEY_ID"] = "A";
  EXPECT_THAT(Find(), HasSubstr("AWS_ACCESS_KEY_ID is set but AWS_SECRET_ACCESS_KEY is not: credentials need both"));
}

TEST_F(Chain, KeysThatWereCopiedBadlyAreRefusedWithoutBeingShown) {
  surroundings_.env["AWS_ACCESS_KEY_ID"] = "A";
  surroundings_.env["AWS_SECRET_ACCESS_KEY"] = "hush ";
  EXPECT_THAT(Find(), AllOf(HasSubstr("the secret access key from environment holds a blank"), Not(HasSubstr("hush"))));
  EXPECT_THAT(Find({"A", "hush\n", {}, {}, ""}),
              AllOf(HasSubstr("the secret access key from the store's options"), Not(HasSubstr("hush"))));
}

TEST_F(Chain, TokenAndEndOfTheEnvironment) {
  surroundings_.env["AWS_ACCESS_KEY_ID"] = "A";
  surroundings_.env["AWS_SECRET_ACCESS_KEY"] = "S";
  surroundings_.env["AWS_SESSION_TOKEN"] = "T";
  simulation_.Run([&] { EXPECT_EQ(Make()->Get(Deadline())->session_token, "T"); });
  surroundings_.env["AWS_CREDENTIAL_EXPIRATION"] = "2001-01-02T03:04:05Z";
  EXPECT_THAT(Find(), HasSubstr("Expired: the credentials from environment (access key A) ended at 2001-01-02T03:04:05Z"));
  surroundings_.env["AWS_CREDENTIAL_EXPIRATION"] = "soon";
  EXPECT_THAT(Find(), HasSubstr("AWS_CREDENTIAL_EXPIRATION: not a time"));
}

TEST_F(Chain, WithoutAnyCredentialsEveryPlaceIsNamedWithItsReason) {
  surroundings_.env.erase("AWS_EC2_METADATA_DISABLED");
  EXPECT_EQ(
      Find(),
      "Denied: found no AWS credentials. Looked at\n"
      "  options: access_key_id is not given\n"
      "  environment: AWS_ACCESS_KEY_ID is not set\n"
      "  assumed role: profile default has no role_arn\n"
      "  web identity: neither AWS_WEB_IDENTITY_TOKEN_FILE nor web_identity_token_file of profile default is set\n"
      "  profile: /home/ann/.aws/credentials does not exist, /home/ann/.aws/config does not exist\n"
      "  container: neither AWS_CONTAINER_CREDENTIALS_RELATIVE_URI nor AWS_CONTAINER_CREDENTIALS_FULL_URI is set\n"
      "  EC2 instance: http://169.254.169.254 did not answer: PUT http://169.254.169.254/latest/api/token: connection refused\n"
      "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or AWS_PROFILE; for a public bucket, or a server that wants none, "
      "add ?unsigned=true to the URI");
}

TEST_F(Chain, APlaceThatIsSetUpAndBrokenIsNotPassedOver) {
  ServeInstance();
  surroundings_.files[kConfig] = "[default]\ncredential_process = keys\n";
  surroundings_.commands.emplace("keys", Status(Code::kDenied, "the command ended with status 1 and said: please log in"));
  EXPECT_EQ(
      Find(),
      "Denied: cannot get AWS credentials: credential_process of profile default: the command ended with status 1 and said: please log in");
  surroundings_.files[kConfig] = "nonsense";
  EXPECT_THAT(Find(), HasSubstr("/home/ann/.aws/config:1: "));
  surroundings_.env["AWS_ACCESS_KEY_ID"] = "ENV";
  surroundings_.env["AWS_SECRET_ACCESS_KEY"] = "S";
  EXPECT_EQ(Find(), "ENV from environment");
}

TEST_F(Chain, RenewalAsksTheSamePlaceAgainAndNoOther) {
  ServeInstance();
  simulation_.Run([&] {
    std::shared_ptr<CredentialSource> source = Make();
    EXPECT_EQ(Told(source->Get(Deadline())), "INSTANCE1 from instance role trainer");
    surroundings_.env["AWS_ACCESS_KEY_ID"] = "ENV";
    surroundings_.env["AWS_SECRET_ACCESS_KEY"] = "S";
    simulation_.SleepFor(2h);
    EXPECT_EQ(Told(source->Get(Deadline())), "INSTANCE2 from instance role trainer");
    // Silence at the start means that this is no EC2 instance; from one that has answered before it is an outage.
    http_->latency = 1h;
    simulation_.SleepFor(2h);
    EXPECT_THAT(Told(source->Get(Deadline())),
                HasSubstr("Unavailable: cannot renew AWS credentials: EC2 instance: http://169.254.169.254 did not answer"));
    http_->latency = Duration::zero();
    simulation_.SleepFor(1min);
    EXPECT_EQ(Told(source->Get(Deadline())), "INSTANCE3 from instance role trainer");
  });
}

TEST_F(Chain, ARefusalAfterASuccessIsWorthARetry) {
  surroundings_.files[kConfig] = "[default]\ncredential_process = keys\n";
  surroundings_.commands.emplace("keys", Json("PROCESS"));
  simulation_.Run([&] {
    std::shared_ptr<CredentialSource> source = Make();
    EXPECT_TRUE(source->Get(Deadline()).ok());
    surroundings_.commands.insert_or_assign("keys", Result<std::string>(Status(Code::kDenied, "the network is down")));
    simulation_.SleepFor(2h);
    EXPECT_EQ(Told(source->Get(Deadline())),
              "Unavailable: cannot renew AWS credentials: credential_process of profile default: the network is down");
  });
}

TEST_F(Chain, AProfileThatSomebodyRenewsInTheFileIsReadAgainAfterARefusal) {
  surroundings_.files[kConfig] = "[default]\naws_access_key_id = OLD\naws_secret_access_key = hush\naws_session_token = mum\n";
  simulation_.Run([&] {
    std::shared_ptr<CredentialSource> source = Make();
    Result<Credentials> old = source->Get(Deadline());
    ASSERT_TRUE(old.ok());
    source->Invalidate(*old);
    EXPECT_THAT(Told(source->Get(Deadline())),
                AllOf(HasSubstr("Denied: the credentials from profile default (access key OLD) were refused as expired"),
                      Not(HasSubstr("hush")), Not(HasSubstr("mum"))));
    surroundings_.files[kConfig] = "[default]\naws_access_key_id = NEW\naws_secret_access_key = hush\naws_session_token = mum\n";
    simulation_.SleepFor(2s);
    EXPECT_EQ(Told(source->Get(Deadline())), "NEW from profile default");
  });
}

TEST_F(Chain, TellsALaptopQuickly) {
  surroundings_.env.erase("AWS_EC2_METADATA_DISABLED");
  http_->latency = 1h;
  simulation_.Run([&] {
    Instant before = simulation_.Now();
    EXPECT_EQ(Make()->Get(Deadline()).code(), Code::kDenied);
    EXPECT_LE(simulation_.Now() - before, Duration(5s));
    EXPECT_EQ(http_->requests.back().connect_timeout, Duration(1s));
  });
}

}  // namespace
}  // namespace headrace
