#include "store/s3/curl_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <latch>
#include <thread>

#include "base/quiet_threads.h"
#include "base/size.h"
#include "store/s3/curl_transfer.h"
#include "store/s3/scripted_server.h"

namespace headrace {
namespace {

using ::testing::HasSubstr;
using Connection = ScriptedServer::Connection;
using std::chrono::milliseconds;

std::shared_ptr<HttpClient> Engine(CurlOptions options = {}) {
  auto engine = MakeCurlEngine(options);
  EXPECT_TRUE(engine.ok()) << engine.status().ToString();
  return *engine;
}

// Long: only what hangs reaches it, on however slow a machine.
Deadline Soon() { return Deadline::After(RealClock(), std::chrono::minutes(2)); }

HttpRequest Request(std::string method, std::string url, Body body = {}) {
  HttpRequest request;
  request.method = std::move(method);
  request.url = std::move(url);
  request.body = std::move(body);
  return request;
}

// Answers every request with `body`.
auto Answering(std::string body) {
  return [body](Connection& connection) {
    while (connection.Read()) connection.Answer("200 OK", body);
  };
}

TEST(CurlEngine, BodyLandsInTheCallersMemory) {
  ScriptedServer server(Answering("some bytes"));
  std::vector<std::byte> memory(64);
  HttpRequest request = Request("GET", server.url("/a"));
  request.into = memory;
  auto answer = Engine()->Do(request, Soon());
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->body.AsText(), "some bytes");
  EXPECT_EQ(answer->body.data(), memory.data());
  EXPECT_EQ(answer->Header("content-length"), "10");
}

struct Landed : Landing {
  void Take(uint64_t offset, std::span<const std::byte> piece) override {
    EXPECT_EQ(offset, text.size());
    text.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  std::string text;
};

TEST(CurlEngine, ARangeIsHandedOverAsItComes) {
  std::string large(3 << 20, 'x');
  for (size_t i = 0; i < large.size(); i += 1000) large[i] = static_cast<char>('a' + i % 25);
  std::string status = "206 Partial Content";
  ScriptedServer server([&](Connection& connection) {
    while (connection.Read()) connection.Answer(status, large);
  });
  auto engine = Engine();
  for (bool part : {true, false}) {
    Landed landing;
    HttpRequest request = Request("GET", server.url("/a"));
    request.landing = &landing;
    auto answer = engine->Do(request, Soon());
    ASSERT_TRUE(answer.ok()) << answer.status().ToString();
    EXPECT_EQ(landing.text == large, part);
    EXPECT_EQ(answer->landed, part ? large.size() : 0);
    EXPECT_EQ(answer->body.AsText(), part ? "" : large);
    status = "200 OK";  // who asked for a range and gets everything must see that
  }
}

TEST(CurlEngine, BodyWithoutALengthIsWhole) {
  std::string large(3 << 20, 'x');
  ScriptedServer server([&](Connection& connection) {
    connection.Read();
    connection.Send(Cat("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "300000\r\n", large, "\r\n0\r\n\r\n"));
    connection.Read();
    connection.Send(Cat("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", large));
  });
  auto engine = Engine();
  for (int i = 0; i < 2; ++i) {
    auto answer = engine->Do(Request("GET", server.url()), Soon());
    ASSERT_TRUE(answer.ok()) << answer.status().ToString();
    EXPECT_EQ(answer->body.AsText(), large);
  }
}

TEST(CurlEngine, KeepsConnectionsOpen) {
  ScriptedServer server(Answering("x"));
  auto engine = Engine();
  for (std::string method : {"GET", "PUT", "DELETE", "POST", "GET"}) {
    Body body = method == "PUT" || method == "POST" ? Body("data") : Body();
    ASSERT_TRUE(engine->Do(Request(method, server.url(), body), Soon()).ok());
  }
  EXPECT_EQ(server.connections(), 1u);
  std::vector<std::string> methods;
  for (const auto& request : server.requests()) methods.push_back(request.head.substr(0, request.head.find(' ')));
  EXPECT_THAT(methods, ::testing::ElementsAre("GET", "PUT", "DELETE", "POST", "GET"));
}

TEST(CurlEngine, SendsThePiecesOfABodyInOrder) {
  ScriptedServer server(Answering(""));
  std::string large(5 << 20, '\0');
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 7919 >> 8);
  Body body;
  body.Append(Bytes::FromString("first "));
  body.Append(Bytes::FromString(large));
  body.Append(Bytes::FromString(" last"));
  HttpRequest request = Request("PUT", server.url("/k?x=1"), body);
  request.headers = {{"X-Empty", ""}, {"X-One", "1"}};
  ASSERT_TRUE(Engine()->Do(request, Soon()).ok());
  auto seen = server.requests().at(0);
  EXPECT_EQ(seen.body, "first " + large + " last");
  EXPECT_TRUE(seen.head.starts_with("PUT /k?x=1 HTTP/1.1\r\n"));
  EXPECT_EQ(seen.Header("x-one"), "1");
  EXPECT_THAT(seen.head, HasSubstr("X-Empty:"));
  // A refusal of "100 Continue" would make libcurl send twice.
  EXPECT_EQ(seen.Header("expect"), "");
  EXPECT_EQ(seen.Header("transfer-encoding"), "");
}

TEST(CurlEngine, EmptyBodyHasALength) {
  ScriptedServer server(Answering(""));
  ASSERT_TRUE(Engine()->Do(Request("PUT", server.url()), Soon()).ok());
  EXPECT_EQ(server.requests().at(0).Header("content-length"), "0");
}

TEST(CurlEngine, PathIsSentAsItIs) {
  ScriptedServer server(Answering(""));
  ASSERT_TRUE(Engine()->Do(Request("GET", server.url("/b/a/../c//%3D%2B%20")), Soon()).ok());
  EXPECT_TRUE(server.requests().at(0).head.starts_with("GET /b/a/../c//%3D%2B%20 HTTP/1.1"));
}

TEST(CurlEngine, RefusalIsAnAnswerAndStaysOutOfTheCallersMemory) {
  ScriptedServer server([](Connection& connection) {
    connection.Read();
    connection.Answer("404 Not Found", "<Error/>", "x-amz-request-id: 7\r\n");
    connection.AwaitClose();
  });
  std::vector<std::byte> memory(2, std::byte{42});
  HttpRequest request = Request("GET", server.url());
  request.into = memory;
  auto answer = Engine()->Do(request, Soon());
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->status, 404);
  EXPECT_EQ(answer->body.AsText(), "<Error/>");
  EXPECT_EQ(answer->Header("x-amz-request-id"), "7");
  EXPECT_EQ(memory[0], std::byte{42});
}

TEST(CurlEngine, InterimAnswersAreSkipped) {
  ScriptedServer server([](Connection& connection) {
    connection.Read();
    connection.Send("HTTP/1.1 100 Continue\r\nX-Interim: 1\r\n\r\n");
    connection.Answer("200 OK", "yes");
    connection.AwaitClose();
  });
  auto answer = Engine()->Do(Request("PUT", server.url(), Body("b")), Soon());
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->Header("x-interim"), "");
  EXPECT_EQ(answer->body.AsText(), "yes");
}

// libcurl would send the request once more over a fresh connection; for a conditional put that would be a lie.
class CurlEngineLostAnswer : public ::testing::TestWithParam<std::pair<std::string, std::string>> {};

TEST_P(CurlEngineLostAnswer, RequestOnADeadKeptConnectionIsNotSentAgain) {
  const auto& [method, body] = GetParam();
  ScriptedServer server([](Connection& connection) {
    connection.Read();
    connection.Answer("200 OK", "first");
    connection.Read();  // the effect happens, the answer never comes
  });
  auto engine = Engine();
  ASSERT_TRUE(engine->Do(Request("GET", server.url()), Soon()).ok());
  HttpFailure failure;
  auto answer = engine->Do(Request(method, server.url("/second"), Body(body)), Soon(), &failure);
  EXPECT_EQ(answer.code(), Code::kUnavailable);
  EXPECT_TRUE(failure.sent);
  EXPECT_THAT(failure.status.message(), HasSubstr("127.0.0.1"));
  EXPECT_EQ(server.requests().size(), 2u);
}

INSTANTIATE_TEST_SUITE_P(All, CurlEngineLostAnswer,
                         ::testing::Values(std::pair("GET", ""), std::pair("DELETE", ""), std::pair("PUT", ""),
                                           std::pair("PUT", "body"), std::pair("POST", ""), std::pair("POST", "body")));

TEST(CurlEngine, ConnectionThatWasClosedWhileIdleIsReplaced) {
  ScriptedServer server([&](Connection& connection) {
    if (connection.number == 0) {
      connection.Read();
      connection.Answer("200 OK", "one");
      return;
    }
    while (connection.Read()) connection.Answer("200 OK", "two");
  });
  auto engine = Engine();
  ASSERT_TRUE(engine->Do(Request("GET", server.url()), Soon()).ok());
  server.AwaitClosed(1);
  auto answer = engine->Do(Request("PUT", server.url(), Body("b")), Soon());
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
  EXPECT_EQ(answer->body.AsText(), "two");
  EXPECT_EQ(server.requests().size(), 2u);
}

TEST(CurlEngine, NothingWasSentWhereNobodyListens) {
  // A port that is ours, so that nobody else comes to listen there.
  const int held = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(held, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(getsockname(held, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string url = Cat("http://127.0.0.1:", ntohs(address.sin_port), "/");
  HttpFailure failure;
  auto answer = Engine()->Do(Request("PUT", url, Body("b")), Soon(), &failure);
  EXPECT_EQ(answer.code(), Code::kUnavailable);
  EXPECT_FALSE(failure.sent);
  EXPECT_THAT(answer.status().message(), HasSubstr(HostOf(url)));
  EXPECT_THAT(answer.status().message(), HasSubstr("check that it is up"));
  close(held);
}

TEST(CurlEngine, UnknownNameSaysSo) {
  std::string name(64, 'a');  // longer than the part of a name can be: no resolver asks the network for it
  HttpFailure failure;
  auto answer = Engine()->Do(Request("GET", Cat("http://", name, "/")), Soon(), &failure);
  EXPECT_EQ(answer.code(), Code::kUnavailable);
  EXPECT_FALSE(failure.sent);
  EXPECT_THAT(answer.status().message(), HasSubstr(Cat("the name ", name, " is not known")));
}

// Would take half of the connect timeout, were libcurl left to its timers.
TEST(CurlEngine, NextAddressOfAHostIsTriedAtOnce) {
  ScriptedServer server(Answering("x"));
  std::string port = server.url("").substr(server.url("").rfind(':') + 1);
  CurlOptions options;
  options.resolve = {Cat("many.test:", port, ":127.0.0.9,127.0.0.8,127.0.0.7,127.0.0.1")};
  options.connect_timeout = std::chrono::minutes(20);
  auto answer = Engine(options)->Do(Request("GET", Cat("http://many.test:", port, "/")), Soon());
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
  EXPECT_EQ(answer->body.AsText(), "x");
}

TEST(CurlEngine, WhatIsNotAUrlIsRefused) {
  for (std::string url : {"http://[broken/", "ftp://127.0.0.1/", ""}) {
    HttpFailure failure;
    auto answer = Engine()->Do(Request("GET", url), Soon(), &failure);
    EXPECT_FALSE(answer.ok()) << url;
    EXPECT_FALSE(failure.sent);
  }
}

TEST(CurlEngine, ConnectionClosedWithoutAnswer) {
  ScriptedServer server([](Connection& connection) { connection.Read(); });
  HttpFailure failure;
  auto answer = Engine()->Do(Request("PUT", server.url(), Body("b")), Soon(), &failure);
  EXPECT_EQ(answer.code(), Code::kUnavailable);
  EXPECT_TRUE(failure.sent);
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST(CurlEngine, ShortBodyIsAnError) {
  ScriptedServer server([](Connection& connection) {
    connection.Read();
    connection.Send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this");
  });
  auto answer = Engine()->Do(Request("GET", server.url()), Soon());
  EXPECT_EQ(answer.code(), Code::kUnavailable);
  EXPECT_THAT(answer.status().message(), HasSubstr("9 of 100 bytes"));
}

TEST(CurlEngine, ShortChunkedBodyIsAnError) {
  ScriptedServer server([](Connection& connection) {
    connection.Read();
    connection.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\nonly this");
  });
  EXPECT_EQ(Engine()->Do(Request("GET", server.url()), Soon()).code(), Code::kUnavailable);
}

TEST(CurlEngine, ResetInsideTheBodyIsAnError) {
  ScriptedServer server([](Connection& connection) {
    connection.Read();
    connection.Send(Cat("HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\n", std::string(100000, 'x')));
    connection.Reset();
  });
  auto answer = Engine()->Do(Request("GET", server.url()), Soon());
  EXPECT_EQ(answer.code(), Code::kUnavailable);
}

TEST(CurlEngine, LongerAnswerThanFitsIsAnError) {
  for (std::string head :
       {"Content-Length: 9\r\n\r\n123456789", "Transfer-Encoding: chunked\r\n\r\n9\r\n123456789\r\n0\r\n\r\n"}) {
    ScriptedServer server([&](Connection& connection) {
      connection.Read();
      connection.Send(Cat("HTTP/1.1 200 OK\r\n", head));
      connection.AwaitClose();
    });
    std::vector<std::byte> memory(8);
    HttpRequest request = Request("GET", server.url());
    request.into = memory;
    HttpFailure failure;
    auto answer = Engine()->Do(request, Soon(), &failure);
    EXPECT_EQ(answer.code(), Code::kInvalidArgument);
    EXPECT_TRUE(failure.too_long);
    EXPECT_THAT(answer.status().message(), HasSubstr("9 bytes"));
  }
}

TEST(CurlEngine, SecondAnswerToOneRequestIsNotTakenForTheNext) {
  ScriptedServer server([](Connection& connection) {
    if (connection.number == 0) {
      connection.Read();
      connection.Send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\noneHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad");
    }
    while (connection.Read()) connection.Answer("200 OK", "two");
  });
  auto engine = Engine();
  EXPECT_EQ(engine->Do(Request("GET", server.url()), Soon())->body.AsText(), "one");
  EXPECT_EQ(engine->Do(Request("GET", server.url()), Soon())->body.AsText(), "two");
}

TEST(CurlEngine, WhatIsNotHttpIsAnError) {
  ScriptedServer server([](Connection& connection) {
    connection.Read();
    connection.Send("220 smtp.example.com ESMTP\r\n");
  });
  auto answer = Engine()->Do(Request("GET", server.url()), Soon());
  EXPECT_EQ(answer.code(), Code::kUnavailable);
  EXPECT_THAT(answer.status().message(), HasSubstr("did not answer in HTTP"));
}

TEST(CurlEngine, StalledTransferIsGivenUp) {
  ScriptedServer server([](Connection& connection) {
    connection.Read();
    connection.Send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this");
    connection.AwaitClose();
  });
  HttpFailure failure;
  // A busy machine may need longer to send the request at all.
  for (milliseconds stall(100); !failure.sent && stall < std::chrono::minutes(1); stall *= 4) {
    CurlOptions options;
    options.stall_timeout = stall;
    auto answer = Engine(options)->Do(Request("GET", server.url()), Soon(), &failure);
    EXPECT_EQ(answer.code(), Code::kUnavailable);
    EXPECT_THAT(answer.status().message(), HasSubstr(Cat("no byte moved for ", FormatDuration(stall))));
  }
  EXPECT_TRUE(failure.sent);
}

TEST(CurlEngine, SlowTransferIsNotAStalledOne) {
  // The whole takes longer than the stall timeout, and no byte does. On a machine that stands still for so long between two bytes it is a stall
  // after all, and shows nothing: then once more, and slower.
  std::atomic<milliseconds> pause = milliseconds(50);
  ScriptedServer server([&](Connection& connection) {
    connection.Read();
    connection.Send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n");
    for (int i = 0; i < 10; ++i) {
      connection.Send("x");
      std::this_thread::sleep_for(pause.load());
    }
    connection.AwaitClose();
  });
  Result<HttpResponse> answer = Status(Code::kInternal, "did not run");
  for (; !answer.ok() && pause.load() < std::chrono::seconds(10); pause = 3 * pause.load()) {
    CurlOptions options;
    options.stall_timeout = 8 * pause.load();
    answer = Engine(options)->Do(Request("GET", server.url()), Deadline());
  }
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
  EXPECT_EQ(answer->body.AsText(), "xxxxxxxxxx");
}

TEST(CurlEngine, LetsGoOfTheMemoryAtTheDeadline) {
  std::latch returned(1);
  ScriptedServer server([&](Connection& connection) {
    connection.Read();
    connection.Send("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n1234");
    returned.wait();
    connection.Send("5678");
    connection.AwaitClose();
  });
  auto engine = Engine();
  std::vector<std::byte> memory(8);
  HttpRequest request = Request("GET", server.url());
  request.into = memory;
  HttpFailure failure;
  // A busy machine may need longer to send the request at all.
  for (milliseconds time(100); !failure.sent && time < std::chrono::minutes(1); time *= 4)
    EXPECT_EQ(engine->Do(request, Deadline::After(RealClock(), time), &failure).code(), Code::kTimeout);
  EXPECT_TRUE(failure.sent);
  std::vector<std::byte> before = memory;
  returned.count_down();
  // The other request would be answered only after the late bytes of the first, were anybody still reading them.
  ScriptedServer other(Answering("x"));
  ASSERT_TRUE(engine->Do(Request("GET", other.url()), Soon()).ok());
  EXPECT_EQ(memory, before);
}

TEST(CurlEngine, StopsWhenAsked) {
  std::stop_source stop;
  ScriptedServer server([&](Connection& connection) {
    connection.Read();
    stop.request_stop();
    connection.AwaitClose();
  });
  HttpFailure failure;
  auto answer = Engine()->Do(Request("PUT", server.url(), Body("b")), Deadline::OnlyStop(stop.get_token()), &failure);
  EXPECT_EQ(answer.code(), Code::kCancelled);
  EXPECT_TRUE(failure.sent);
}

TEST(CurlEngine, DoesNotBeginAfterTheDeadline) {
  ScriptedServer server(Answering("x"));
  HttpFailure failure;
  auto answer = Engine()->Do(Request("GET", server.url()), Deadline(RealClock().Now()), &failure);
  EXPECT_EQ(answer.code(), Code::kTimeout);
  EXPECT_FALSE(failure.sent);
  EXPECT_EQ(server.connections(), 0u);
}

TEST(CurlEngine, ManyCallersShareFewConnections) {
  ScriptedServer server(Answering("hello"));
  CurlOptions options;
  options.max_connections = 4;
  auto engine = Engine(options);
  std::atomic<int> right = 0;
  std::vector<std::jthread> callers;
  for (int i = 0; i < 32; ++i) {
    callers.emplace_back([&] {
      for (int k = 0; k < 20; ++k) {
        auto answer = engine->Do(Request("GET", server.url()), Soon());
        right += answer.ok() && answer->body.AsText() == "hello";
      }
    });
  }
  callers.clear();
  EXPECT_EQ(right, 32 * 20);
  EXPECT_LE(server.connections(), 4u);
}

TEST(CurlEngine, CancellingMeetsFinishingSafely) {
  ScriptedServer server(Answering("hello"));
  auto engine = Engine();
  std::vector<std::jthread> callers;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&, i] {
      for (int k = 0; k < 50; ++k) {
        std::vector<std::byte> memory(5);
        HttpRequest request = Request("GET", server.url());
        request.into = memory;
        Duration time = std::chrono::microseconds((i * 50 + k) * 5);
        auto answer = engine->Do(request, Deadline::After(RealClock(), time));
        EXPECT_TRUE(answer.ok() || answer.code() == Code::kTimeout) << answer.status().ToString();
      }
    });
  }
  callers.clear();
  auto answer = engine->Do(Request("GET", server.url()), Soon());
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
}

TEST(CurlEngine, IsAnErrorInTheChildOfAFork) {
  ScriptedServer server(Answering("x"));
  auto engine = *SharedCurlEngine();
  ASSERT_TRUE(engine->Do(Request("GET", server.url()), Soon()).ok());
  AwaitQuietThreads();
  pid_t child = fork();
  if (child == 0) {
    alarm(300);
    HttpFailure failure;
    auto answer = engine->Do(Request("GET", server.url()), Soon(), &failure);
    bool refused = answer.code() == Code::kUnsupported && !failure.sent;
    engine.reset();
#ifndef __SANITIZE_THREAD__  // which does not bear threads in such a child
    auto anew = SharedCurlEngine();
    if (!anew.ok() || !(*anew)->Do(Request("GET", server.url()), Soon()).ok()) _exit(2);
#endif
    _exit(refused ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
}

TEST(CurlEngine, IsSharedByThoseWhoWantTheSame) {
  auto one = *SharedCurlEngine(), two = *SharedCurlEngine();
  EXPECT_EQ(one, two);
  CurlOptions other;
  other.event_threads = 1;
  EXPECT_NE(*SharedCurlEngine(other), one);
}

TEST(CurlEngine, MissingCertificatesAreAnErrorAtOnce) {
  CurlOptions options;
  options.ca_file = "/nonexistent/ca.pem";
  auto engine = MakeCurlEngine(options);
  EXPECT_EQ(engine.code(), Code::kInvalidArgument);
  EXPECT_THAT(engine.status().message(), HasSubstr("/nonexistent/ca.pem"));
}

TEST(CurlEngine, NoProxyStandsBetweenUsAndThisMachine) {
  ScriptedServer server(Answering("direct")), proxy(Answering("by proxy"));
  setenv("http_proxy", proxy.url("").c_str(), 1);
  for (const char* exceptions : {"no_proxy", "NO_PROXY"}) unsetenv(exceptions);
  auto engine = Engine();
  EXPECT_EQ(engine->Do(Request("GET", server.url()), Soon())->body.AsText(), "direct");
  EXPECT_EQ(engine->Do(Request("GET", "http://store.invalid/"), Soon())->body.AsText(), "by proxy");
  unsetenv("http_proxy");
}

TEST(HostOf, LeavesOutWhatMayBeSecret) {
  EXPECT_EQ(HostOf("https://h:9/p?X-Amz-Signature=s"), "h:9");
  EXPECT_EQ(HostOf("http://user:password@h/p"), "h");
  EXPECT_EQ(HostOf("http://h?x"), "h");
}

TEST(IsLocalHost, KnowsLoopbackAndLinkLocal) {
  for (auto host : {"127.0.0.1:80", "127.9.9.9", "localhost", "localhost:9000", "s3.localhost:1", "[::1]:80", "169.254.169.254",
                    "169.254.170.2", "[fd00:ec2::254]"}) {
    EXPECT_TRUE(IsLocalHost(host)) << host;
  }
  for (auto host : {"10.0.0.1", "example.com:127", "localhost.example.com", "[2001:db8::1]", "1127.0.0.1", "127.example.com",
                    "169.254.example.com", ""}) {
    EXPECT_FALSE(IsLocalHost(host)) << host;
  }
}

TEST(IsLoopback, LeavesOutWhatIsReachedOverAWire) {
  for (auto host : {"127.0.0.1:80", "localhost", "s3.localhost:1", "[::1]:80"}) EXPECT_TRUE(IsLoopback(host)) << host;
  for (auto host : {"169.254.169.254", "[fd00:ec2::254]", "127.example.com", "10.0.0.1"}) EXPECT_FALSE(IsLoopback(host)) << host;
}

}  // namespace
}  // namespace headrace
