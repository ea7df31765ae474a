#include "base/metrics_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/log.h"

namespace headrace {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

int Connect(uint16_t port) {
  const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
  timeval patience{120, 0};
  setsockopt(made, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  if (connect(made, reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0) {
    close(made);
    return -1;
  }
  return made;
}

std::string ReadAll(int from) {
  std::string all;
  char buffer[4096];
  for (ssize_t got; (got = recv(from, buffer, sizeof(buffer), 0)) > 0;) all.append(buffer, static_cast<size_t>(got));
  close(from);
  return all;
}

// The server lets go of whom it does not hear for five seconds: a machine that stood still for so long gets another try.
std::string Ask(uint16_t port, const std::string& request, size_t piece = SIZE_MAX) {
  std::string answer;
  for (int attempt = 0; attempt < 10 && answer.empty(); ++attempt) {
    const int to = Connect(port);
    EXPECT_GE(to, 0);
    for (size_t at = 0; at < request.size(); at += std::min(piece, request.size() - at))
      send(to, request.data() + at, std::min(piece, request.size() - at), MSG_NOSIGNAL);
    answer = ReadAll(to);
  }
  return answer;
}

class MetricsServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<MetricsServer>> started = MetricsServer::Start({"127.0.0.1", 0}, metrics_);
    ASSERT_TRUE(started.ok()) << started.status().ToString();
    server_ = *std::move(started);
  }
  uint16_t port() const { return server_->at().port; }

  Metrics metrics_;
  std::unique_ptr<MetricsServer> server_;
};

TEST_F(MetricsServerTest, ServesTheRegistryAsItIsNow) {
  Counter& counter = metrics_.GetCounter("headrace_test_total", "T.", {{"a", "b"}});
  counter.Add(3);
  const std::string first = Ask(port(), "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(first, StartsWith("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
  EXPECT_THAT(first, HasSubstr("\nheadrace_test_total{a=\"b\"} 3\n"));
  EXPECT_THAT(first, HasSubstr("headrace_build_info{version=\""));
  counter.Add(1);
  EXPECT_THAT(Ask(port(), "GET /metrics?x=y HTTP/1.1\r\nHost: x\r\n\r\n"), HasSubstr("\nheadrace_test_total{a=\"b\"} 4\n"));
  const size_t head = first.find("\r\n\r\n") + 4;
  EXPECT_THAT(first, HasSubstr("Content-Length: " + std::to_string(first.size() - head) + "\r\n"));
  EXPECT_THAT(server_->url(), StartsWith("http://127.0.0.1:"));
}

TEST_F(MetricsServerTest, AnswersNothingElse) {
  EXPECT_THAT(Ask(port(), "GET /healthz HTTP/1.1\r\n\r\n"), HasSubstr("\r\n\r\nok\n"));
  EXPECT_THAT(Ask(port(), "GET /etc/passwd HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(Ask(port(), "POST /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello"), StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(Ask(port(), "POST /metrics HTTP/1.1\r\n\r\n"), HasSubstr("\r\nAllow: GET, HEAD\r\n"));
  EXPECT_THAT(Ask(port(), "hello\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Ask(port(), "GET /metrics HTTP/2\r\n\r\n"), StartsWith("HTTP/1.1 505 "));
  EXPECT_THAT(Ask(port(), "GET /metrics HTTP/1.1\r\nX: " + std::string(9000, 'x')), StartsWith("HTTP/1.1 431 "));
  const std::string head = Ask(port(), "HEAD /metrics HTTP/1.1\r\n\r\n");
  EXPECT_THAT(head, StartsWith("HTTP/1.1 200 "));
  EXPECT_TRUE(head.ends_with("\r\n\r\n"));
}

TEST_F(MetricsServerTest, ARequestMayComeInPieces) {
  EXPECT_THAT(Ask(port(), "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", 1), StartsWith("HTTP/1.1 200 "));
}

TEST_F(MetricsServerTest, WhoSaysNothingDoesNotKeepOthersOut) {
  std::vector<int> silent;
  for (int i = 0; i < 12; ++i) silent.push_back(Connect(port()));
  EXPECT_THAT(Ask(port(), "GET /healthz HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 200 "));
  server_ = nullptr;  // ends at once all the same
  for (int socket : silent) EXPECT_EQ(ReadAll(socket), "");
}

TEST_F(MetricsServerTest, APortThatIsTakenIsNamed) {
  Result<std::unique_ptr<MetricsServer>> second = MetricsServer::Start(server_->at(), metrics_);
  EXPECT_EQ(second.code(), Code::kConflict);
  EXPECT_THAT(second.status().message(), HasSubstr("127.0.0.1:" + std::to_string(port())));
  Result<std::unique_ptr<MetricsServer>> next = MetricsServer::Start(server_->at(), metrics_, 20);
  ASSERT_TRUE(next.ok());
  EXPECT_GT((*next)->at().port, port());
  const HostPort at = server_->at();
  server_ = nullptr;
  EXPECT_EQ(Connect(at.port), -1);
  EXPECT_TRUE(MetricsServer::Start(at, metrics_).ok());
}

TEST_F(MetricsServerTest, ProcessesThatShareAVariableAllLive) {
  SetLogSink([](std::string_view) {});
  setenv("HEADRACE_METRICS", server_->at().ToString().c_str(), 1);
  std::unique_ptr<MetricsServer> other = ServeMetricsOfEnvironment();
  ASSERT_NE(other, nullptr);
  EXPECT_NE(other->at().port, port());
  setenv("HEADRACE_METRICS", "nonsense", 1);
  EXPECT_EQ(ServeMetricsOfEnvironment(), nullptr);
  unsetenv("HEADRACE_METRICS");
  EXPECT_EQ(ServeMetricsOfEnvironment(), nullptr);
  SetLogSink(nullptr);
}

TEST(HostPort, IsReadAndWritten) {
  for (const char* text : {"127.0.0.1:9100", ":9100", "[::1]:0", "localhost:65535"}) {
    Result<HostPort> at = ParseHostPort(text);
    ASSERT_TRUE(at.ok()) << text;
    EXPECT_EQ(at->ToString(), text);
  }
  for (const char* text : {"", "9100", "host", "host:", "host:x", "host:65536", "host:-1", "::1:80", "http://a:80"})
    EXPECT_EQ(ParseHostPort(text).code(), Code::kInvalidArgument) << text;
}

}  // namespace
}  // namespace headrace
