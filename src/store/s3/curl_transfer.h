// One request on its way: what libcurl's callbacks see of it, and what its caller waits for.
//
// Lives on the caller's stack. The event thread touches it from the moment it was handed over until `done`.
#pragma once

#include <curl/curl.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>

#include "headrace/bytes.h"
#include "store/s3/curl_engine.h"
#include "store/s3/http.h"

namespace headrace {

class CurlTransfer {
 public:
  // Both must outlive it.
  CurlTransfer(const HttpRequest& request, const CurlOptions& options) : request_(request), options_(options) {}
  ~CurlTransfer() { curl_slist_free_all(headers_); }
  CurlTransfer(const CurlTransfer&) = delete;
  CurlTransfer& operator=(const CurlTransfer&) = delete;

  // Everything about a handle that no request changes.
  static void PrepareOnce(CURL* easy, const CurlOptions& options);

  // For the event thread, in this order. After `Detach` the handle knows nothing of this transfer.
  void Attach(CURL* easy);
  void Finish(CURLcode code);  // what became of it; before `Detach`
  void Detach();
  void MarkDone();

  // For the caller, before `MarkDone`: when the last byte moved, in steady nanoseconds; 0 while there is no connection yet.
  int64_t last_activity() const { return last_activity_.load(std::memory_order_relaxed); }

  // For the caller, after `MarkDone`.
  bool finished() const { return finished_; }
  bool sent() const { return attempts_ > 0; }
  bool too_long() const { return too_long_; }
  const Status& failure() const { return failure_; }
  HttpResponse TakeResponse();

  std::mutex mutex;
  std::condition_variable wake;
  bool done = false;  // guarded by `mutex`: the event thread will not touch this any more

  CURL* easy() const { return easy_; }

 private:
  static size_t OnHeader(char* data, size_t size, size_t count, void* self);
  static size_t OnBody(char* data, size_t size, size_t count, void* self);
  static size_t OnSend(char* data, size_t size, size_t count, void* self);
  static int OnRewind(void* self, curl_off_t offset, int origin);
  static int OnConnected(void* self, char*, char*, int, int);

  bool TakeHeader(std::string_view line);
  bool HeadersAreWhole();
  bool TakeBody(std::span<const std::byte> piece);
  bool Refuse(Code code, std::string message);
  Status Describe(CURLcode code) const;
  void Stamp();

  const HttpRequest& request_;
  const CurlOptions& options_;
  CURL* easy_ = nullptr;
  curl_slist* headers_ = nullptr;
  std::array<char, CURL_ERROR_SIZE> words_{};
  std::atomic<int64_t> last_activity_ = 0;
  int attempts_ = 0;  // how often libcurl was about to send the request

  size_t sent_part_ = 0, sent_offset_ = 0;

  HttpResponse response_;
  std::optional<uint64_t> content_length_;
  std::optional<Buffer> buffer_;
  std::span<std::byte> sink_;
  Landing* landing_ = nullptr;
  bool sink_chosen_ = false;
  size_t received_ = 0;

  bool finished_ = false;
  bool too_long_ = false;
  Status failure_;
};

// "host" or "host:port" of a URL, for messages; without what may be secret.
std::string HostOf(const std::string& url);
// True for 127.*, localhost and ::1: what is sent there never leaves this machine.
bool IsLoopback(std::string_view host_and_port);
// True for loopback, and for the link-local addresses where metadata services live: no proxy stands before them.
bool IsLocalHost(std::string_view host_and_port);

}  // namespace headrace
