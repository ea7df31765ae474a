#include "base/metrics_server.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/text.h"
#include "headrace/clock.h"

namespace headrace {
namespace {

constexpr size_t kMostConnections = 16;
constexpr size_t kMostRequestBytes = 8192;
constexpr Duration kPatience = std::chrono::seconds(5);

struct Connection {
  int socket;
  Instant until;
  std::string request;
  std::string answer;  // empty until the request is there
  size_t sent = 0;
  bool draining = false;  // answered; what the client may still send is read, or closing would take the answer back
};

struct Answer {
  std::string_view status;
  std::string body;
  std::string_view type = "text/plain; charset=utf-8";
  std::string_view more_headers = "";
};

std::string Text(const Answer& answer, bool with_body) {
  return Cat("HTTP/1.1 ", answer.status, "\r\nContent-Type: ", answer.type, "\r\nContent-Length: ", answer.body.size(), "\r\n",
             answer.more_headers, "Connection: close\r\n\r\n", with_body ? answer.body : "");
}

// What everybody wants to know of a process, by the names that everybody's dashboards have.
void NoteProcess(Metrics& metrics) {
  std::ifstream statm("/proc/self/statm");
  uint64_t pages = 0, resident = 0;
  if (statm >> pages >> resident)
    metrics.GetGauge("process_resident_memory_bytes", "Resident memory of the process.")
        .Set(static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)));
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0) {
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
    };
    Counter& cpu = metrics.GetCounter("process_cpu_seconds_total", "Processor time of the process, user and system.");
    cpu.Add(std::max(0.0, seconds(usage.ru_utime) + seconds(usage.ru_stime) - cpu.value()));
  }
}

// `head`: a request up to its empty line.
std::string AnswerTo(std::string_view head, Metrics& metrics) {
  const std::string_view line = head.substr(0, head.find("\r\n"));
  const size_t first = line.find(' ');
  const size_t second = first == std::string_view::npos ? first : line.find(' ', first + 1);
  if (second == std::string_view::npos || first == 0 || second == first + 1)
    return Text({"400 Bad Request", "this is no HTTP request\n"}, true);
  const std::string_view method = line.substr(0, first);
  const std::string_view version = line.substr(second + 1);
  std::string_view path = line.substr(first + 1, second - first - 1);
  if (!version.starts_with("HTTP/")) return Text({"400 Bad Request", "this is no HTTP request\n"}, true);
  if (!version.starts_with("HTTP/1.")) return Text({"505 HTTP Version Not Supported", "HTTP/1.1 is spoken here\n"}, true);
  path = path.substr(0, path.find_first_of("?#"));
  const bool with_body = method != "HEAD";
  if (path != "/metrics" && path != "/healthz") return Text({"404 Not Found", "there are /metrics and /healthz\n"}, with_body);
  if (method != "GET" && method != "HEAD")
    return Text({"405 Method Not Allowed", "only to be read\n", "text/plain; charset=utf-8", "Allow: GET, HEAD\r\n"}, true);
  if (path == "/healthz") return Text({"200 OK", "ok\n"}, with_body);
  NoteProcess(metrics);
  return Text({"200 OK", metrics.ToPrometheus(), "text/plain; version=0.0.4; charset=utf-8"}, with_body);
}

// Goes on with a connection that is ready; false when it is over.
bool GoOn(Connection& connection, Metrics& metrics) {
  char buffer[2048];
  if (connection.answer.empty() || connection.draining) {
    const ssize_t got = recv(connection.socket, buffer, sizeof(buffer), 0);
    if (got == 0) return false;
    if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    if (connection.draining) return true;
    connection.request.append(buffer, static_cast<size_t>(got));
    if (connection.request.find("\r\n\r\n") != std::string::npos) {
      connection.answer = AnswerTo(connection.request, metrics);
    } else if (connection.request.size() > kMostRequestBytes) {
      connection.answer = Text({"431 Request Header Fields Too Large", "a request has at most 8 KiB\n"}, true);
    } else {
      return true;
    }
  }
  while (connection.sent < connection.answer.size()) {
    const ssize_t sent = send(connection.socket, connection.answer.data() + connection.sent,
                              connection.answer.size() - connection.sent, MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    connection.sent += static_cast<size_t>(sent);
  }
  shutdown(connection.socket, SHUT_WR);
  connection.draining = true;
  return true;
}

struct Listening {
  int socket = -1;
  uint16_t port = 0;
};

uint16_t PortOf(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                                             : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

// The error's number in place of a socket.
Listening TryListen(const addrinfo& address, int& error) {
  const int made = socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (made < 0) {
    error = errno;
    return {};
  }
  const int yes = 1;
  setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));  // a restart shall not wait for the last one's connections
  if (bind(made, address.ai_addr, address.ai_addrlen) != 0 || listen(made, 16) != 0) {
    error = errno;
    close(made);
    return {};
  }
  return {made, PortOf(made)};
}

Result<Listening> ListenAt(const HostPort& at) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  if (at.host.empty()) hints.ai_family = AF_INET;
  addrinfo* found = nullptr;
  const int looked_up = getaddrinfo(at.host.empty() ? nullptr : at.host.c_str(), Cat(at.port).c_str(), &hints, &found);
  if (looked_up != 0)
    return Status(Code::kInvalidArgument, Cat("cannot serve metrics at ", at.ToString(), ": ", gai_strerror(looked_up)));
  int error = 0;
  Listening listening;
  for (const addrinfo* address = found; address != nullptr && listening.socket < 0; address = address->ai_next)
    listening = TryListen(*address, error);
  freeaddrinfo(found);
  if (listening.socket >= 0) return listening;
  if (error == EADDRINUSE)
    return Status(Code::kConflict, Cat("cannot serve metrics at ", at.ToString(),
                                       ": another program has this port. Name another one, or port 0 to have one chosen"));
  return Status(Code::kInvalidArgument, Cat("cannot serve metrics at ", at.ToString(), ": ", std::strerror(error)));
}

}  // namespace

std::string HostPort::ToString() const {
  return host.find(':') == std::string::npos ? Cat(host, ":", port) : Cat("[", host, "]:", port);
}

Result<HostPort> ParseHostPort(const std::string& text) {
  const auto wrong = [&] {
    return Status(Code::kInvalidArgument,
                  Cat("\"", text, "\" is no address to serve metrics at: HOST:PORT, as 127.0.0.1:9100 or :9100"));
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return wrong();
  HostPort at;
  at.host = text.substr(0, colon);
  if (at.host.starts_with('[') && at.host.ends_with(']')) {
    at.host = at.host.substr(1, at.host.size() - 2);
  } else if (at.host.find_first_of(":[]/ ") != std::string::npos) {
    return wrong();
  }
  const std::string_view port = std::string_view(text).substr(colon + 1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), at.port);
  if (error != std::errc() || end != port.data() + port.size() || port.empty()) return wrong();
  return at;
}

Result<std::unique_ptr<MetricsServer>> MetricsServer::Start(const HostPort& at, Metrics& metrics, uint16_t ports) {
  Result<Listening> listening = ListenAt(at);
  for (uint16_t i = 1; i < ports && at.port != 0 && listening.code() == Code::kConflict && at.port + i <= UINT16_MAX; ++i)
    listening = ListenAt({at.host, static_cast<uint16_t>(at.port + i)});
  if (!listening.ok() && listening.code() == Code::kConflict && ports > 1)
    return Status(Code::kConflict, Cat("cannot serve metrics: port ", at.port, " and the ", ports - 1, " after it are taken"));
  HR_RETURN_IF_ERROR(listening.status());
  const int wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake < 0) {
    close(listening->socket);
    return Status(Code::kInternal, Cat("cannot serve metrics: ", std::strerror(errno)));
  }
  metrics.GetGauge("headrace_build_info", "Always 1; the labels say what this process is.", {{"version", HEADRACE_VERSION}})
      .Set(1);
  return std::unique_ptr<MetricsServer>(new MetricsServer({at.host, listening->port}, listening->socket, wake, metrics));
}

MetricsServer::MetricsServer(HostPort at, int listener, int wake, Metrics& metrics)
    : at_(std::move(at)), listener_(listener), wake_(wake), metrics_(metrics) {
  // Signals are for the threads that wait for them.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { Serve(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

MetricsServer::~MetricsServer() {
  const uint64_t one = 1;
  while (write(wake_, &one, sizeof(one)) < 0 && errno == EINTR) {
  }
  thread_.join();
  close(listener_);
  close(wake_);
}

std::string MetricsServer::url() const {
  return Cat("http://", HostPort{at_.host.empty() ? "0.0.0.0" : at_.host, at_.port}.ToString(), "/metrics");
}

void MetricsServer::Serve() {
  Clock& clock = RealClock();
  std::vector<Connection> connections;
  while (true) {
    std::vector<pollfd> waiting = {{wake_, POLLIN, 0}};
    for (const Connection& connection : connections) {
      const bool reads = connection.answer.empty() || connection.draining;
      waiting.push_back({connection.socket, static_cast<short>(reads ? POLLIN : POLLOUT), 0});
    }
    // With all places taken, others wait in the system's queue.
    if (connections.size() < kMostConnections) waiting.push_back({listener_, POLLIN, 0});
    if (poll(waiting.data(), waiting.size(), connections.empty() ? -1 : 250) < 0 && errno != EINTR) break;
    if (waiting.front().revents != 0) break;
    const Instant now = clock.Now();
    const size_t known = connections.size();
    std::vector<bool> over(known);
    for (size_t i = 0; i < known; ++i) {
      if (waiting[i + 1].revents != 0) over[i] = !GoOn(connections[i], metrics_);
      over[i] = over[i] || now >= connections[i].until;
    }
    if (waiting.size() > known + 1 && waiting.back().revents != 0) {
      const int made = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (made >= 0) connections.push_back({made, now + kPatience, {}, {}, 0, false});
    }
    std::vector<Connection> open;
    for (size_t i = 0; i < connections.size(); ++i) {
      if (i < known && over[i]) {
        close(connections[i].socket);
      } else {
        open.push_back(std::move(connections[i]));
      }
    }
    connections = std::move(open);
  }
  for (const Connection& connection : connections) close(connection.socket);
}

std::unique_ptr<MetricsServer> ServeMetricsOfEnvironment(uint16_t shift) {
  const char* wish = std::getenv("HEADRACE_METRICS");
  if (wish == nullptr || *wish == '\0') return nullptr;
  Result<HostPort> at = ParseHostPort(wish);
  Status failure = at.status();
  if (at.ok()) {
    if (at->port != 0) at->port = static_cast<uint16_t>(at->port + shift);
    Result<std::unique_ptr<MetricsServer>> server = MetricsServer::Start(*at, Metrics::Default(), kPortsTried);
    if (server.ok()) {
      HR_LOG(kInfo, "metrics are served", {"at", (*server)->url()});
      return *std::move(server);
    }
    failure = server.status();
  }
  HR_LOG(kWarning, "HEADRACE_METRICS: going on without serving metrics", {"why", failure.message()});
  return nullptr;
}

}  // namespace headrace
