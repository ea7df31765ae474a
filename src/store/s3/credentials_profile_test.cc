#include "store/s3/credentials_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/s3/credentials_fakes.h"

namespace headrace {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr char kCredentials[] = "/home/ann/.aws/credentials";
constexpr char kConfig[] = "/home/ann/.aws/config";

class Profile : public testing::Test {
 protected:
  Result<CredentialFinding> Look(std::optional<std::string> profile = {}) {
    CredentialSearch search{{}, surroundings_.Get(), nullptr, RealClock()};
    search.options.profile = std::move(profile);
    return LookInProfile(search, Deadline());
  }
  // "id secret token" of what is found, or why not.
  std::string Keys(std::optional<std::string> profile = {}) {
    Result<CredentialFinding> finding = Look(std::move(profile));
    if (!finding.ok()) return finding.status().ToString();
    if (!finding->credentials) return Cat("nothing: ", finding->reason);
    const Credentials& found = *finding->credentials;
    return Cat(found.access_key_id, " ", found.secret_access_key, " ", found.session_token);
  }
  std::string Setting(const std::string& name, std::optional<std::string> profile = {}) {
    Result<std::optional<std::string>> value = ProfileSetting(surroundings_.Get(), profile, name);
    return value.ok() ? value->value_or("(none)") : value.status().ToString();
  }

  FakeSurroundings surroundings_;
};

TEST_F(Profile, StaticKeysOfTheCredentialsFile) {
  surroundings_.files[kCredentials] =
      "[default]\naws_access_key_id = A\naws_secret_access_key = S\n[dev]\naws_access_key_id=A2\naws_secret_access_key=S2\naws_session_token=T2\n";
  EXPECT_EQ(Keys(), "A S ");
  EXPECT_EQ(Look()->credentials->origin, "profile default");
  EXPECT_EQ(Keys("dev"), "A2 S2 T2");
  surroundings_.env["AWS_PROFILE"] = "dev";
  EXPECT_EQ(Keys(), "A2 S2 T2");
  EXPECT_EQ(Keys("default"), "A S ");
}

TEST_F(Profile, TheConfigFileNamesItsSectionsOtherwise) {
  surroundings_.files[kConfig] =
      "[default]\naws_access_key_id = A\naws_secret_access_key = S\n[profile dev]\naws_access_key_id=A2\naws_secret_access_key=S2\n"
      "[profile \"with space\"]\naws_access_key_id=A3\naws_secret_access_key=S3\n[bare]\naws_access_key_id=A4\naws_secret_access_key=S4\n";
  EXPECT_EQ(Keys(), "A S ");
  EXPECT_EQ(Keys("dev"), "A2 S2 ");
  EXPECT_EQ(Keys("with space"), "A3 S3 ");
  EXPECT_THAT(Keys("bare"),
              AllOf(HasSubstr("InvalidArgument: there is no profile bare"), HasSubstr("must be called [profile bare]")));
}

TEST_F(Profile, TheCredentialsFileWinsAndItsKeysAreNotMixedWithTheOthers) {
  surroundings_.files[kCredentials] = "[default]\naws_access_key_id = A\naws_secret_access_key = S\n";
  surroundings_.files[kConfig] = "[default]\naws_access_key_id = A2\naws_secret_access_key = S2\naws_session_token = T2\n";
  EXPECT_EQ(Keys(), "A S ");
}

TEST_F(Profile, FilesMayBeElsewhere) {
  surroundings_.env["AWS_SHARED_CREDENTIALS_FILE"] = "/etc/keys";
  surroundings_.env["AWS_CONFIG_FILE"] = "~/config.ini";
  surroundings_.files["/etc/keys"] = "[default]\naws_access_key_id = A\naws_secret_access_key = S\n";
  surroundings_.files["/home/ann/config.ini"] = "[default]\nregion = eu-west-1\n";
  EXPECT_EQ(Keys(), "A S ");
  EXPECT_EQ(Setting("region"), "eu-west-1");
}

TEST_F(Profile, WithoutFilesThereIsNothingAndWhy) {
  EXPECT_EQ(Keys(), "nothing: /home/ann/.aws/credentials does not exist, /home/ann/.aws/config does not exist");
  surroundings_.env["AWS_SHARED_CREDENTIALS_FILE"] = "/nowhere";
  surroundings_.env.erase("HOME");
  EXPECT_EQ(
      Keys(),
      "nothing: /nowhere (from AWS_SHARED_CREDENTIALS_FILE) does not exist, ~/.aws/config cannot be found because HOME is not set");
}

TEST_F(Profile, WithoutKeysThereIsNothingAndWhy) {
  surroundings_.files[kConfig] = "[default]\nregion = eu-west-1\n";
  surroundings_.files[kCredentials] = "[dev]\naws_access_key_id = A\naws_secret_access_key = S\n";
  EXPECT_EQ(
      Keys(),
      "nothing: /home/ann/.aws/credentials has no [default], /home/ann/.aws/config:1: [default] has neither keys nor credential_process");
}

TEST_F(Profile, AProfileThatWasAskedForMustExist) {
  surroundings_.files[kCredentials] = "[profile dev]\naws_access_key_id = A\n";
  surroundings_.env["AWS_PROFILE"] = "dev";
  EXPECT_EQ(Keys(),
            "InvalidArgument: there is no profile dev: /home/ann/.aws/config does not exist, "
            "/home/ann/.aws/credentials has [profile dev], which must be called [dev] in this file");
  EXPECT_THAT(Setting("region"), HasSubstr("there is no profile dev"));
}

TEST_F(Profile, AnUnreadableFileMattersOnlyToWhoNeedsIt) {
  surroundings_.unreadable.emplace(kCredentials,
                                   Status(Code::kDenied, "cannot read /home/ann/.aws/credentials: Permission denied"));
  EXPECT_EQ(Keys(), "nothing: cannot read /home/ann/.aws/credentials: Permission denied, /home/ann/.aws/config does not exist");
  EXPECT_EQ(Keys("dev"), "Denied: profile dev: cannot read /home/ann/.aws/credentials: Permission denied");
}

TEST_F(Profile, MalformedFilesAreNamedWithTheLineAndNotQuoted) {
  surroundings_.files[kCredentials] = "[default]\naws_access_key_id = A\nsecret wJalr\n";
  EXPECT_EQ(Keys(), "InvalidArgument: /home/ann/.aws/credentials:3: expected `name = value`, `[section]` or a comment");
  surroundings_.files[kCredentials] = "\n[default]\naws_access_key_id = A\n";
  EXPECT_EQ(Keys(),
            "InvalidArgument: /home/ann/.aws/credentials:2: profile default has aws_access_key_id but no aws_secret_access_key: "
            "credentials need both");
  surroundings_.files[kCredentials] = "[default]\naws_access_key_id = A\naws_secret_access_key = wJalr # mine\n";
  EXPECT_THAT(Keys(), AllOf(HasSubstr("credentials:1: the secret access key from profile default holds a blank"),
                            Not(HasSubstr("wJalr"))));
}

TEST_F(Profile, CredentialProcess) {
  surroundings_.files[kConfig] = "[profile dev]\ncredential_process = /opt/keys --for\n  dev\n";
  surroundings_.commands.emplace(
      "/opt/keys --for dev",
      R"({"Version": 1, "AccessKeyId": "A", "SecretAccessKey": "S", "SessionToken": "T", "Expiration": "2027-01-02T03:04:05Z"})");
  EXPECT_EQ(Keys("dev"), "A S T");
  Result<CredentialFinding> finding = Look("dev");
  EXPECT_TRUE(finding->credentials->expires);
  EXPECT_EQ(finding->credentials->origin, "credential_process of profile dev");
}

TEST_F(Profile, CredentialProcessStandsBetweenTheKeysOfTheTwoFiles) {
  surroundings_.files[kConfig] = "[default]\ncredential_process = keys\naws_access_key_id = A2\naws_secret_access_key = S2\n";
  surroundings_.commands.emplace("keys", R"({"Version": 1, "AccessKeyId": "A", "SecretAccessKey": "S"})");
  EXPECT_EQ(Keys(), "A S ");
  surroundings_.files[kCredentials] = "[default]\naws_access_key_id = A3\naws_secret_access_key = S3\n";
  EXPECT_EQ(Keys(), "A3 S3 ");
}

TEST_F(Profile, CredentialProcessThatFails) {
  surroundings_.files[kConfig] = "[default]\ncredential_process = keys\n";
  EXPECT_EQ(Keys(),
            "InvalidArgument: credential_process of profile default: the command ended with status 127 and said: not found");
  auto printed = [&](std::string output) {
    surroundings_.commands.insert_or_assign("keys", Result<std::string>(std::move(output)));
    return Keys();
  };
  EXPECT_THAT(printed("Password: hush"), AllOf(HasSubstr("is not a JSON object"), Not(HasSubstr("hush"))));
  EXPECT_THAT(printed(R"({"Version": 2, "AccessKeyId": "A", "SecretAccessKey": "hush"})"),
              AllOf(HasSubstr("Unsupported"), Not(HasSubstr("hush"))));
  EXPECT_THAT(printed(R"({"AccessKeyId": "A", "SecretAccessKey": "hush"})"), HasSubstr("does not say `\"Version\": 1`"));
  EXPECT_THAT(printed(R"({"Version": 1, "AccessKeyId": "A"})"), HasSubstr("has no `SecretAccessKey`"));
}

TEST_F(Profile, SsoIsRefusedWithTheWayOutUnlessThereAreKeysToo) {
  surroundings_.files[kConfig] = "[profile dev]\nsso_session = corp\n";
  EXPECT_THAT(Keys("dev"),
              AllOf(HasSubstr("Unsupported: profile dev signs in with sso_session"),
                    HasSubstr("credential_process = aws configure export-credentials --profile dev --format process")));
  surroundings_.files[kCredentials] = "[dev]\naws_access_key_id = A\naws_secret_access_key = S\n";
  EXPECT_EQ(Keys("dev"), "A S ");
}

TEST_F(Profile, SettingsComeFromTheProfileThatCounts) {
  surroundings_.files[kConfig] =
      "[default]\nregion = eu-west-1\n[profile dev]\nregion = us-east-2\nendpoint_url = https://all.example\n";
  EXPECT_EQ(Setting("region"), "eu-west-1");
  EXPECT_EQ(Setting("endpoint_url"), "(none)");
  EXPECT_EQ(Setting("region", "dev"), "us-east-2");
  surroundings_.env["AWS_PROFILE"] = "dev";
  EXPECT_EQ(Setting("endpoint_url"), "https://all.example");
}

TEST_F(Profile, ASettingInBothFilesIsThatOfTheCredentialsFile) {
  surroundings_.files[kConfig] = "[default]\nregion = eu-west-1\noutput = json\n";
  surroundings_.files[kCredentials] = "[default]\nregion = us-east-2\n";
  EXPECT_EQ(Setting("region"), "us-east-2");
  EXPECT_EQ(Setting("output"), "json");
}

TEST_F(Profile, AnEndpointForTheServiceWinsOverTheOneForAll) {
  surroundings_.files[kConfig] =
      "[default]\nservices = local\nendpoint_url = https://all.example\n[services local]\ns3 =\n  endpoint_url = http://127.0.0.1:9000\n";
  EXPECT_EQ(Setting("endpoint_url"), "http://127.0.0.1:9000");
  surroundings_.files[kConfig] =
      "[default]\nservices = local\nendpoint_url = https://all.example\n[services local]\nsts =\n  endpoint_url = x\n";
  EXPECT_EQ(Setting("endpoint_url"), "https://all.example");
  surroundings_.files[kConfig] = "[default]\nservices = local\n";
  EXPECT_EQ(Setting("endpoint_url"),
            "InvalidArgument: /home/ann/.aws/config: profile default says `services = local`, but there is no [services local]");
}

}  // namespace
}  // namespace headrace
