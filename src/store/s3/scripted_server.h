// For tests: a server on loopback that treats each connection the way a test tells it to, well or badly.
//
//   ScriptedServer server([](ScriptedServer::Connection& connection) {
//     while (connection.Read()) connection.Send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
//   });
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/text.h"

namespace headrace {

class ScriptedServer {
 public:
  struct Request {
    std::string head;  // request line and headers
    std::string body;
    // The value of a header, by its name in lower case; empty if there is none.
    std::string Header(std::string_view name) const {
      for (const std::string& line : Split(head, '\n')) {
        size_t colon = line.find(':');
        if (colon != std::string::npos && Lower(line.substr(0, colon)) == name) return std::string(Trim(line.substr(colon + 1)));
      }
      return {};
    }
  };

  class Connection {
   public:
    Connection(ScriptedServer& server, int socket, size_t which) : number(which), server_(server), socket_(socket) {}

    // The next request, whole; nothing once the other side has closed.
    std::optional<Request> Read() {
      size_t end;
      while ((end = pending_.find("\r\n\r\n")) == std::string::npos) {
        if (!Receive()) return std::nullopt;
      }
      Request request{.head = pending_.substr(0, end), .body = {}};
      pending_.erase(0, end + 4);
      uint64_t length = 0;
      ParseNumber(request.Header("content-length"), length);
      while (pending_.size() < length) {
        if (!Receive()) return std::nullopt;
      }
      request.body = pending_.substr(0, length);
      pending_.erase(0, length);
      std::lock_guard lock(server_.mutex_);
      server_.requests_.push_back(request);
      return request;
    }

    void Send(std::string_view text) {
      while (!text.empty()) {
        ssize_t count = send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
        if (count <= 0) return;
        text.remove_prefix(static_cast<size_t>(count));
      }
    }
    void Answer(std::string_view status, std::string_view body, std::string_view more_headers = "") {
      Send(Cat("HTTP/1.1 ", status, "\r\n", more_headers, "Content-Length: ", body.size(), "\r\n\r\n", body));
    }
    // Blocks until the other side closes.
    void AwaitClose() {
      while (Receive()) {
      }
    }
    // Ends it with a reset instead of an orderly close.
    void Reset() {
      linger abrupt{.l_onoff = 1, .l_linger = 0};
      setsockopt(socket_, SOL_SOCKET, SO_LINGER, &abrupt, sizeof(abrupt));
    }

    const size_t number;  // 0 for the first connection that the server took

   private:
    bool Receive() {
      char buffer[65536];
      ssize_t count = recv(socket_, buffer, sizeof(buffer), 0);
      if (count <= 0) return false;
      pending_.append(buffer, static_cast<size_t>(count));
      return true;
    }

    ScriptedServer& server_;
    int socket_;
    std::string pending_;
  };

  // `script` runs once per connection, on a thread of its own; the connection ends with it.
  explicit ScriptedServer(std::function<void(Connection&)> script) : script_(std::move(script)) {
    listener_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address));
    listen(listener_, 128);
    socklen_t size = sizeof(address);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { Accept(); });
  }

  ~ScriptedServer() {
    shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    {
      std::lock_guard lock(mutex_);
      for (int socket : open_) shutdown(socket, SHUT_RDWR);
    }
    for (std::thread& thread : threads_) thread.join();
    close(listener_);
  }

  std::string url(std::string_view path = "/") const { return Cat("http://127.0.0.1:", port_, path); }
  std::vector<Request> requests() const {
    std::lock_guard lock(mutex_);
    return requests_;
  }
  size_t connections() const { return connections_; }
  // Returns once `count` connections have ended on this side.
  void AwaitClosed(size_t count) const {
    for (size_t seen = closed_; seen < count; seen = closed_) closed_.wait(seen);
  }

 private:
  void Accept() {
    while (true) {
      int socket = accept(listener_, nullptr, nullptr);
      if (socket < 0) return;
      size_t number = connections_++;
      std::lock_guard lock(mutex_);
      open_.push_back(socket);
      threads_.emplace_back([this, socket, number] {
        Connection connection(*this, socket, number);
        script_(connection);
        std::lock_guard closing(mutex_);
        std::erase(open_, socket);
        close(socket);
        ++closed_;
        closed_.notify_all();
      });
    }
  }

  std::function<void(Connection&)> script_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::atomic<size_t> connections_ = 0, closed_ = 0;
  mutable std::mutex mutex_;
  std::vector<Request> requests_;
  std::vector<int> open_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

}  // namespace headrace
