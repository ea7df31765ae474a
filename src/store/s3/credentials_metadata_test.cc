#include "store/s3/credentials_metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/log.h"
#include "base/simulation.h"
#include "store/s3/credentials_answer.h"
#include "store/s3/credentials_fakes.h"

namespace headrace {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr char kAnswer[] =
    R"({"Code": "Success", "AccessKeyId": "ASIA1", "SecretAccessKey": "hush", "Token": "mum", "Expiration": "2099-01-02T03:04:05Z"})";

class Metadata : public testing::Test {
 protected:
  Metadata() { surroundings_.env.erase("AWS_EC2_METADATA_DISABLED"); }

  CredentialSearch MakeSearch() { return {{}, surroundings_.Get(), http_, simulation_}; }

  static std::string Told(const Result<CredentialFinding>& finding) {
    if (!finding.ok()) return finding.status().ToString();
    if (!finding->credentials) return Cat("nothing: ", finding->reason);
    return Cat(finding->credentials->access_key_id, " from ", finding->credentials->origin);
  }
  std::string Instance() {
    std::string told;
    simulation_.Run([&] { told = Told(LookAtInstance(MakeSearch(), Deadline())); });
    return told;
  }
  std::string Container() {
    std::string told;
    simulation_.Run([&] { told = Told(LookAtContainer(MakeSearch(), Deadline())); });
    return told;
  }

  void ServeInstance(const std::string& host) {
    http_->On(Cat("PUT ", host, "/latest/api/token"), [](const HttpRequest& request) {
      return HeaderOf(request, "x-aws-ec2-metadata-token-ttl-seconds") == "21600" ? FakeHttp::Answer(200, "v2-token")
                                                                                  : FakeHttp::Answer(400, "");
    });
    auto guarded = [](std::string body) {
      return [body](const HttpRequest& request) {
        return HeaderOf(request, "x-aws-ec2-metadata-token") == "v2-token" ? FakeHttp::Answer(200, body)
                                                                           : FakeHttp::Answer(401, "");
      };
    };
    http_->On(Cat("GET ", host, "/latest/meta-data/iam/security-credentials/"), guarded("trainer\n"));
    http_->On(Cat("GET ", host, "/latest/meta-data/iam/security-credentials/trainer"), guarded(kAnswer));
  }

  Simulation simulation_{1};
  FakeSurroundings surroundings_;
  std::shared_ptr<FakeHttp> http_ = std::make_shared<FakeHttp>(simulation_);
};

TEST_F(Metadata, InstanceRoleByVersionTwo) {
  ServeInstance("http://169.254.169.254");
  EXPECT_EQ(Instance(), "ASIA1 from instance role trainer");
  ASSERT_EQ(http_->requests.size(), 3u);
  for (const HttpRequest& request : http_->requests) EXPECT_EQ(request.connect_timeout, Duration(1s));
}

TEST_F(Metadata, InstanceServiceMayBeElsewhereOrOff) {
  ServeInstance("http://[fd00:ec2::254]");
  surroundings_.env["AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE"] = "IPv6";
  EXPECT_EQ(Instance(), "ASIA1 from instance role trainer");
  ServeInstance("http://127.0.0.1:1338");
  surroundings_.env["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = "http://127.0.0.1:1338/";
  EXPECT_EQ(Instance(), "ASIA1 from instance role trainer");
  EXPECT_EQ(http_->requests.back().url, "http://127.0.0.1:1338/latest/meta-data/iam/security-credentials/trainer");
  surroundings_.env["AWS_EC2_METADATA_DISABLED"] = "True";
  EXPECT_EQ(Instance(), "nothing: not asked, because AWS_EC2_METADATA_DISABLED is set");
}

TEST_F(Metadata, OutsideEc2ThereIsNothing) {
  EXPECT_THAT(Instance(), AllOf(HasSubstr("nothing: http://169.254.169.254 did not answer"), HasSubstr("connection refused")));
  http_->latency = 1h;
  Instant before = simulation_.Now();
  EXPECT_THAT(Instance(), HasSubstr("nothing: http://169.254.169.254 did not answer"));
  EXPECT_LE(simulation_.Now() - before, Duration(5s));
}

TEST_F(Metadata, NeverFallsBackToVersionOne) {
  ServeInstance("http://169.254.169.254");
  for (int status : {400, 403, 404, 405}) {
    http_->On("PUT http://169.254.169.254/latest/api/token", status, "");
    EXPECT_EQ(Instance(), Cat("nothing: http://169.254.169.254 answered ", status, " when asked for an IMDSv2 token"));
  }
  for (const HttpRequest& request : http_->requests) EXPECT_EQ(request.method, "PUT");
}

TEST_F(Metadata, InstanceServiceThatIsThereAndFailsIsAnError) {
  ServeInstance("http://169.254.169.254");
  http_->On("PUT http://169.254.169.254/latest/api/token", 503, "");
  EXPECT_EQ(Instance(), "Unavailable: http://169.254.169.254 answered 503 when asked for an IMDSv2 token");
  ServeInstance("http://169.254.169.254");
  http_->On("GET http://169.254.169.254/latest/meta-data/iam/security-credentials/trainer", 500, "");
  EXPECT_EQ(Instance(), "Unavailable: http://169.254.169.254 answered 500 when asked for the credentials of the instance role");
  http_->On("GET http://169.254.169.254/latest/meta-data/iam/security-credentials/trainer", 200, "<html>hush</html>");
  EXPECT_EQ(Instance(), "Unavailable: the answer of instance role trainer is not a JSON object");
}

TEST_F(Metadata, InstanceWithoutARole) {
  ServeInstance("http://169.254.169.254");
  http_->On("GET http://169.254.169.254/latest/meta-data/iam/security-credentials/", 404, "");
  EXPECT_EQ(Instance(), "nothing: this EC2 instance has no role attached");
}

TEST_F(Metadata, InstanceThatCannotRenewHandsOutOldOnesThatStillWork) {
  std::string log;
  SetLogSink([&](std::string_view line) { log += line; });
  ServeInstance("http://169.254.169.254");
  http_->On("GET http://169.254.169.254/latest/meta-data/iam/security-credentials/trainer", 200,
            R"({"AccessKeyId": "ASIA1", "SecretAccessKey": "hush", "Token": "mum", "Expiration": "2001-01-02T03:04:05Z"})");
  simulation_.Run([&] {
    Result<CredentialFinding> finding = LookAtInstance(MakeSearch(), Deadline());
    ASSERT_TRUE(finding.ok() && finding->credentials);
    EXPECT_EQ(*finding->credentials->expires, simulation_.WallNow() + 10min);
  });
  SetLogSink(nullptr);
  EXPECT_THAT(log, AllOf(HasSubstr("2001-01-02T03:04:05Z"), Not(HasSubstr("hush")), Not(HasSubstr("mum"))));
}

TEST_F(Metadata, ContainerRole) {
  EXPECT_THAT(Container(), HasSubstr("nothing: neither AWS_CONTAINER_CREDENTIALS_RELATIVE_URI nor"));
  surroundings_.env["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"] = "/v2/credentials/1234";
  http_->On("GET http://169.254.170.2/v2/credentials/1234", 200, kAnswer);
  EXPECT_EQ(Container(), "ASIA1 from container role");
  EXPECT_EQ(HeaderOf(http_->requests.back(), "authorization"), "(none)");
  EXPECT_EQ(http_->requests.back().connect_timeout, Duration(1s));
}

TEST_F(Metadata, ContainerTokenIsReadAnewEachTime) {
  surroundings_.env["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = "http://169.254.170.23/v1/credentials";
  surroundings_.env["AWS_CONTAINER_AUTHORIZATION_TOKEN"] = "from-env";
  http_->On("GET http://169.254.170.23/v1/credentials", 200, kAnswer);
  EXPECT_EQ(Container(), "ASIA1 from container role");
  EXPECT_EQ(HeaderOf(http_->requests.back(), "authorization"), "from-env");
  surroundings_.env["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = "/token";
  EXPECT_EQ(Container(), "Denied: /token (from AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE) does not exist");
  surroundings_.files["/token"] = "first\n";
  Container();
  EXPECT_EQ(HeaderOf(http_->requests.back(), "authorization"), "first");
  surroundings_.files["/token"] = "second";
  Container();
  EXPECT_EQ(HeaderOf(http_->requests.back(), "authorization"), "second");
  surroundings_.files["/token"] = "thi\r\nrd";
  EXPECT_EQ(Container(), "InvalidArgument: the token of AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE cannot stand in an HTTP header");
}

TEST_F(Metadata, ContainerRefusalSaysWhyButNoSecret) {
  surroundings_.env["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"] = "/v2/credentials/1234";
  surroundings_.env["AWS_CONTAINER_AUTHORIZATION_TOKEN"] = "hush";
  EXPECT_THAT(Container(),
              AllOf(HasSubstr("http://169.254.170.2 did not answer"), Not(HasSubstr("1234")), Not(HasSubstr("hush"))));
  http_->On("GET http://169.254.170.2/v2/credentials/1234", 403,
            R"({"code": "AccessDenied", "message": "token hush is not valid"})");
  EXPECT_EQ(Container(),
            "Denied: http://169.254.170.2 answered 403 when asked for the container's credentials: token *** is not valid");
  http_->On("GET http://169.254.170.2/v2/credentials/1234", 500, "");
  EXPECT_THAT(Container(), HasSubstr("Unavailable"));
}

TEST_F(Metadata, ContainerUrlIsPlainOnlyOnThisMachineAndItsNeighbours) {
  for (const char* url :
       {"https://anywhere.example/x", "http://127.0.0.1/x", "http://127.9.8.7:80", "http://localhost:1338/x", "http://[::1]:80/x",
        "http://169.254.170.2/x", "http://169.254.170.23/x", "http://[fd00:ec2::23]/x", "http://[FD00:EC2:0::23]:80/x"}) {
    EXPECT_TRUE(CheckContainerUrl(url).ok()) << url << ": " << CheckContainerUrl(url).ToString();
  }
  for (const char* url :
       {"http://anywhere.example/x", "http://10.0.0.1/x", "http://169.254.169.254/x", "http://169.254.170.2.evil.example/",
        "http://127.0.0.1@evil.example/", "http://127.0.0.1\\@evil.example/", "http://127.0.0.1:80@evil.example/",
        "ftp://127.0.0.1/", "127.0.0.1/x", "http://", "http:///x", "https://", "http://[::2]/", "http://[/",
        "http://127.0.0.1/\r\nX: y", "http://localhost.evil.example/", "http://2130706433/"}) {
    EXPECT_EQ(CheckContainerUrl(url).code(), Code::kInvalidArgument) << url;
  }
  surroundings_.env["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = "http://evil.example/x";
  EXPECT_THAT(Container(), HasSubstr("InvalidArgument: AWS_CONTAINER_CREDENTIALS_FULL_URI names the host evil.example"));
  surroundings_.env["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"] = "@evil.example/x";
  EXPECT_EQ(Container(), "InvalidArgument: AWS_CONTAINER_CREDENTIALS_RELATIVE_URI must start with '/'");
  EXPECT_TRUE(http_->requests.empty());
}

}  // namespace
}  // namespace headrace
