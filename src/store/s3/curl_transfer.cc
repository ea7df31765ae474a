#include "store/s3/curl_transfer.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>

#include "base/buffer_pool.h"
#include "base/size.h"
#include "base/text.h"

#if LIBCURL_VERSION_NUM < 0x075500
#error "libcurl 7.85 or newer is needed"
#endif

namespace headrace {
namespace {

// Of an error's body, only the beginning is of interest.
constexpr size_t kMaxErrorBody = 1 << 20;

long Milliseconds(Duration time) {
  return static_cast<long>(std::max<int64_t>(1, std::chrono::duration_cast<std::chrono::milliseconds>(time).count()));
}

// Without the brackets of an IPv6 address, too.
std::string_view WithoutPort(std::string_view host) {
  return host.starts_with('[') ? host.substr(1, host.find(']') - 1) : host.substr(0, host.find(':'));
}

// An address, and not a name that merely begins like one: 127.example.com is somewhere else.
bool IsIpv4(std::string_view host, std::string_view network) {
  return host.starts_with(network) && host.find_first_not_of("0123456789.") == std::string_view::npos;
}

}  // namespace

std::string HostOf(const std::string& url) {
  size_t begin = url.find("://");
  begin = begin == std::string::npos ? 0 : begin + 3;
  std::string host = url.substr(begin, url.find_first_of("/?#", begin) - begin);
  size_t at = host.rfind('@');
  return at == std::string::npos ? host : host.substr(at + 1);
}

bool IsLoopback(std::string_view host_and_port) {
  std::string_view host = WithoutPort(host_and_port);
  return host == "localhost" || host.ends_with(".localhost") || IsIpv4(host, "127.") || host == "::1";
}

bool IsLocalHost(std::string_view host_and_port) {
  std::string_view host = WithoutPort(host_and_port);
  return IsLoopback(host_and_port) || IsIpv4(host, "169.254.") || host.starts_with("fe80:") || host == "fd00:ec2::254";
}

void CurlTransfer::PrepareOnce(CURL* easy, const CurlOptions& options) {
  auto set = [easy](CURLoption option, auto value) { curl_easy_setopt(easy, option, value); };
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_NOPROGRESS, 1L);
  set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_PATH_AS_IS, 1L);
  set(CURLOPT_TCP_NODELAY, 1L);
  set(CURLOPT_TCP_KEEPALIVE, 1L);
  set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  set(CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
  set(CURLOPT_BUFFERSIZE, static_cast<long>(options.receive_bytes));
  set(CURLOPT_UPLOAD_BUFFERSIZE, static_cast<long>(options.send_bytes));
  set(CURLOPT_USERAGENT, "headrace");
#if LIBCURL_VERSION_NUM >= 0x075700
  // A name that does not resolve must not hold up the event thread when its caller gives up.
  set(CURLOPT_QUICK_EXIT, 1L);
#endif
  if (!options.ca_file.empty()) set(CURLOPT_CAINFO, options.ca_file.c_str());
  set(CURLOPT_HEADERFUNCTION, &OnHeader);
  set(CURLOPT_WRITEFUNCTION, &OnBody);
  set(CURLOPT_READFUNCTION, &OnSend);
  set(CURLOPT_SEEKFUNCTION, &OnRewind);
  set(CURLOPT_PREREQFUNCTION, &OnConnected);
}

void CurlTransfer::Attach(CURL* easy) {
  easy_ = easy;
  auto set = [easy](CURLoption option, auto value) { curl_easy_setopt(easy, option, value); };
  const std::string& method = request_.method;
  bool upload = method == "PUT" || method == "POST" || request_.body.size() > 0;
  set(CURLOPT_HTTPGET, 1L);
  set(CURLOPT_NOBODY, method == "HEAD" ? 1L : 0L);
  set(CURLOPT_UPLOAD, upload ? 1L : 0L);
  set(CURLOPT_CUSTOMREQUEST, method == "GET" || method == "HEAD" ? nullptr : method.c_str());
  set(CURLOPT_INFILESIZE_LARGE, upload ? static_cast<curl_off_t>(request_.body.size()) : curl_off_t{-1});
  set(CURLOPT_URL, request_.url.c_str());
  for (const auto& [name, value] : request_.headers) {
    std::string line = value.empty() ? Cat(name, ';') : Cat(name, ": ", value);
    headers_ = curl_slist_append(headers_, line.c_str());
  }
  // Waiting for "100 Continue" costs a round trip, and its refusal would make libcurl send the request twice.
  headers_ = curl_slist_append(headers_, "Expect:");
  set(CURLOPT_HTTPHEADER, headers_);
  set(CURLOPT_CONNECTTIMEOUT_MS, Milliseconds(request_.connect_timeout.value_or(options_.connect_timeout)));
  set(CURLOPT_PROXY, IsLocalHost(HostOf(request_.url)) ? "" : nullptr);
  set(CURLOPT_ERRORBUFFER, words_.data());
  for (CURLoption option :
       {CURLOPT_HEADERDATA, CURLOPT_WRITEDATA, CURLOPT_READDATA, CURLOPT_SEEKDATA, CURLOPT_PREREQDATA, CURLOPT_PRIVATE}) {
    set(option, static_cast<void*>(this));
  }
}

void CurlTransfer::Finish(CURLcode code) {
  finished_ = true;
  if (code != CURLE_OK && failure_.ok()) failure_ = Describe(code);
  if (failure_.ok() && content_length_ && received_ < *content_length_ && request_.method != "HEAD" && response_.ok()) {
    failure_ = Describe(CURLE_PARTIAL_FILE);
  }
}

void CurlTransfer::Detach() {
  curl_easy_setopt(easy_, CURLOPT_ERRORBUFFER, nullptr);
  curl_easy_setopt(easy_, CURLOPT_HTTPHEADER, nullptr);
  curl_easy_setopt(easy_, CURLOPT_PRIVATE, nullptr);
  easy_ = nullptr;
}

void CurlTransfer::MarkDone() {
  // Notified under the lock: the caller may be gone as soon as it sees `done`.
  std::lock_guard lock(mutex);
  done = true;
  wake.notify_one();
}

HttpResponse CurlTransfer::TakeResponse() {
  if (landing_ != nullptr) {
    response_.landed = received_;
  } else if (buffer_) {
    response_.body = std::move(*buffer_).Freeze(received_);
  } else if (sink_chosen_) {
    response_.body = Bytes::Borrow(sink_.first(received_));
  }
  return std::move(response_);
}

void CurlTransfer::Stamp() {
  last_activity_.store(std::chrono::steady_clock::now().time_since_epoch().count(), std::memory_order_relaxed);
}

bool CurlTransfer::Refuse(Code code, std::string message) {
  failure_ = Status(code, std::move(message));
  return false;
}

int CurlTransfer::OnConnected(void* self, char*, char*, int, int) {
  auto& transfer = *static_cast<CurlTransfer*>(self);
  transfer.Stamp();
  if (++transfer.attempts_ == 1) return CURL_PREREQFUNC_OK;
  transfer.Refuse(Code::kUnavailable, Cat(HostOf(transfer.request_.url), " closed a kept connection instead of answering"));
  return CURL_PREREQFUNC_ABORT;
}

int CurlTransfer::OnRewind(void*, curl_off_t, int) { return CURL_SEEKFUNC_FAIL; }

size_t CurlTransfer::OnSend(char* data, size_t size, size_t count, void* self) {
  auto& transfer = *static_cast<CurlTransfer*>(self);
  transfer.Stamp();
  const std::vector<Bytes>& parts = transfer.request_.body.parts();
  size_t room = size * count, filled = 0;
  while (filled < room && transfer.sent_part_ < parts.size()) {
    const Bytes& part = parts[transfer.sent_part_];
    size_t piece = std::min(room - filled, part.size() - transfer.sent_offset_);
    std::memcpy(data + filled, part.data() + transfer.sent_offset_, piece);
    filled += piece;
    transfer.sent_offset_ += piece;
    if (transfer.sent_offset_ == part.size()) {
      ++transfer.sent_part_;
      transfer.sent_offset_ = 0;
    }
  }
  return filled;
}

size_t CurlTransfer::OnHeader(char* data, size_t size, size_t count, void* self) {
  auto& transfer = *static_cast<CurlTransfer*>(self);
  transfer.Stamp();
  return transfer.TakeHeader({data, size * count}) ? size * count : 0;
}

size_t CurlTransfer::OnBody(char* data, size_t size, size_t count, void* self) {
  auto& transfer = *static_cast<CurlTransfer*>(self);
  transfer.Stamp();
  return transfer.TakeBody(std::as_bytes(std::span(data, size * count))) ? size * count : 0;
}

bool CurlTransfer::TakeHeader(std::string_view line) {
  line = Trim(line);
  if (line.starts_with("HTTP/")) {  // also after an interim answer (1xx)
    response_ = {};
    content_length_.reset();
    uint64_t status = 0;
    size_t space = line.find(' ');
    if (space != std::string_view::npos && ParseNumber(line.substr(space + 1, 3), status))
      response_.status = static_cast<int>(status);
    return true;
  }
  if (line.empty()) return response_.status < 200 || HeadersAreWhole();
  size_t colon = line.find(':');
  if (colon == std::string_view::npos) return true;
  auto& [name, value] = response_.headers.emplace_back(Lower(Trim(line.substr(0, colon))), Trim(line.substr(colon + 1)));
  uint64_t length = 0;
  if (name == "content-length" && ParseNumber(value, length)) content_length_ = length;
  return true;
}

bool CurlTransfer::HeadersAreWhole() {
  if (sink_chosen_) return true;  // trailers
  if (request_.method == "HEAD") return true;
  sink_chosen_ = true;
  if (response_.status == 206 && request_.landing != nullptr) {
    landing_ = request_.landing;
    return true;
  }
  if (response_.ok() && !request_.into.empty()) {
    sink_ = request_.into;
    return true;
  }
  // The pages of a large buffer cost nothing before bytes land in them.
  uint64_t size = content_length_.value_or(16 << 10);
  if (!response_.ok()) size = std::min<uint64_t>(size, kMaxErrorBody);
  try {
    buffer_.emplace(response_.ok() && request_.pool != nullptr ? request_.pool->Take(size) : Buffer(size));
  } catch (const std::bad_alloc&) {
    return Refuse(Code::kFull,
                  Cat("no memory for an answer of ", FormatSize(static_cast<double>(size)), "; ask for smaller ranges"));
  }
  sink_ = buffer_->span();
  return true;
}

bool CurlTransfer::TakeBody(std::span<const std::byte> piece) {
  if (landing_ != nullptr) {
    landing_->Take(received_, piece);
    received_ += piece.size();
    return true;
  }
  if (!response_.ok()) piece = piece.first(std::min(piece.size(), kMaxErrorBody - std::min(received_, kMaxErrorBody)));
  uint64_t whole = std::max<uint64_t>(content_length_.value_or(0), received_ + piece.size());
  if (response_.ok() && !request_.into.empty() && whole > sink_.size()) {
    too_long_ = true;
    return Refuse(Code::kInvalidArgument, Cat("the answer has ", whole, " bytes", content_length_ ? "" : " or more",
                                              ", and the memory given for it only ", sink_.size()));
  }
  if (received_ + piece.size() > sink_.size()) {  // an answer that did not say how long it is
    try {
      Buffer larger(std::max(2 * sink_.size(), received_ + piece.size()));
      std::memcpy(larger.span().data(), sink_.data(), received_);
      buffer_ = std::move(larger);
    } catch (const std::bad_alloc&) {
      return Refuse(Code::kFull, "no memory for the answer; ask for smaller ranges");
    }
    sink_ = buffer_->span();
  }
  std::memcpy(sink_.data() + received_, piece.data(), piece.size());
  received_ += piece.size();
  return true;
}

Status CurlTransfer::Describe(CURLcode code) const {
  std::string host = HostOf(request_.url);
  std::string words = words_[0] != '\0' ? std::string(words_.data()) : curl_easy_strerror(code);
  switch (code) {
    case CURLE_URL_MALFORMAT:
      return Status(Code::kInvalidArgument, Cat("the address ", host, " cannot be understood (", words, "); check the endpoint"));
    case CURLE_COULDNT_RESOLVE_HOST:
      return Status(Code::kUnavailable,
                    Cat("the name ", host, " is not known (", words, "); check the endpoint, the region and the network"));
    case CURLE_COULDNT_RESOLVE_PROXY:
      return Status(Code::kUnavailable, Cat("the proxy is not known (", words, "); check HTTPS_PROXY and HTTP_PROXY"));
    case CURLE_COULDNT_CONNECT:
      return Status(Code::kUnavailable,
                    Cat("cannot connect to ", host, " (", words, "); check that it is up and that the endpoint is right"));
    case CURLE_OPERATION_TIMEDOUT:
      return Status(Code::kUnavailable, Cat("no connection to ", host, " within ",
                                            FormatDuration(request_.connect_timeout.value_or(options_.connect_timeout)),
                                            "; check the network and the endpoint"));
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_ISSUER_ERROR:
      return Status(Code::kDenied, Cat("the certificate of ", host, " is not trusted (", words,
                                       "); if it is one of your own, name its authority's PEM file (ca_file, AWS_CA_BUNDLE)"));
    case CURLE_SSL_CACERT_BADFILE:
      return Status(Code::kInvalidArgument,
                    Cat("the certificates in ", options_.ca_file.empty() ? "the system's store" : options_.ca_file,
                        " cannot be read (", words, "); check ca_file and AWS_CA_BUNDLE"));
    case CURLE_SSL_CONNECT_ERROR:
      return Status(Code::kUnavailable,
                    Cat("no TLS with ", host, " (", words, "); check that the endpoint speaks https at this port"));
    case CURLE_PARTIAL_FILE:
      return Status(Code::kUnavailable, Cat("the answer of ", host, " was cut short after ", received_, " of ",
                                            content_length_ ? Cat(*content_length_) : std::string("unknown"), " bytes"));
    case CURLE_GOT_NOTHING: return Status(Code::kUnavailable, Cat(host, " closed the connection without an answer"));
    case CURLE_SEND_ERROR:
    case CURLE_SEND_FAIL_REWIND:
    case CURLE_RECV_ERROR: return Status(Code::kUnavailable, Cat("the connection to ", host, " broke (", words, ")"));
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
      return Status(Code::kUnavailable,
                    Cat(host, " did not answer in HTTP (", words, "); check the endpoint and whether it wants https"));
    default: return Status(Code::kUnavailable, Cat("no answer from ", host, " (", words, ")"));
  }
}

}  // namespace headrace
