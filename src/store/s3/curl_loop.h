// One event thread of the engine: a libcurl multi handle driven by epoll, with its connections and spare easy handles.
//
// epoll and not curl_multi_poll: the latter looks at every transfer whenever one of them has bytes.
//
// Thread-safe. Must outlive the calls that use it.
#pragma once

#include <curl/curl.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "headrace/clock.h"
#include "headrace/result.h"
#include "store/s3/curl_transfer.h"

namespace headrace {

class CurlLoop {
 public:
  static Result<std::unique_ptr<CurlLoop>> Start(const CurlOptions& options, size_t max_connections);
  // Ends the thread. Nobody may be waiting for a transfer any more.
  ~CurlLoop();

  // Hands over a transfer; it is `done` when the answer is whole or cannot be had.
  void Begin(CurlTransfer& transfer);
  // Takes it back and waits until the thread has let go of it. It may have finished meanwhile.
  void Cancel(CurlTransfer& transfer);
  // Transfers that were begun and are not done.
  size_t load() const { return load_.load(std::memory_order_relaxed); }

 private:
  struct Cancellation {
    CurlTransfer* transfer;
    bool seen = false;
  };

  explicit CurlLoop(const CurlOptions& options) : options_(options) {}
  Status Open(size_t max_connections);
  void Run();
  bool TakeMessages();  // false: it is time to end
  void Add(CurlTransfer& transfer);
  void Release(CurlTransfer& transfer);
  void Harvest();
  void Act(curl_socket_t socket, int events);
  void TryNextAddresses();
  void Wake();
  static int OnSocket(CURL*, curl_socket_t socket, int what, void* self, void* known);
  static int OnTimer(CURLM*, long milliseconds, void* self);

  const CurlOptions options_;
  CURLM* multi_ = nullptr;
  CURLSH* sessions_ = nullptr;
  curl_slist* resolve_ = nullptr;
  int epoll_ = -1;
  int wake_ = -1;
  Instant timer_ = Instant::max();
  bool lost_while_connecting_ = false;
  std::vector<CURL*> spare_;
  std::atomic<size_t> load_ = 0;

  std::mutex mutex_;
  std::vector<CurlTransfer*> arrivals_;
  std::vector<Cancellation*> cancellations_;
  bool closing_ = false;

  std::thread thread_;
};

}  // namespace headrace
