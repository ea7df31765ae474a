#include "store/s3/curl_loop.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/text.h"

namespace headrace {
namespace {

constexpr size_t kMaxSpareHandles = 64;

Status SystemFailure(std::string_view what) {
  return Status(Code::kFull, Cat("cannot start an event thread for HTTP: ", what, " failed (", std::strerror(errno),
                                 "); check the limits of the process (ulimit -n, ulimit -u)"));
}

}  // namespace

Result<std::unique_ptr<CurlLoop>> CurlLoop::Start(const CurlOptions& options, size_t max_connections) {
  std::unique_ptr<CurlLoop> loop(new CurlLoop(options));
  HR_RETURN_IF_ERROR(loop->Open(max_connections));
  // Signals are for the program's own threads. SIGPIPE above all: OpenSSL writes to closed sockets without asking.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Status started;
  try {
    loop->thread_ = std::thread([raw = loop.get()] { raw->Run(); });
  } catch (const std::system_error& error) {
    errno = error.code().value();
    started = SystemFailure("starting it");
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  HR_RETURN_IF_ERROR(started);
  return loop;
}

Status CurlLoop::Open(size_t max_connections) {
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  if (epoll_ < 0) return SystemFailure("epoll_create1");
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_ < 0) return SystemFailure("eventfd");
  epoll_event event{.events = EPOLLIN, .data = {.fd = wake_}};
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_, &event) != 0) return SystemFailure("epoll_ctl");
  multi_ = curl_multi_init();
  sessions_ = curl_share_init();
  if (multi_ == nullptr || sessions_ == nullptr) return SystemFailure("curl_multi_init");
  // TLS sessions are resumed by whichever handle connects next; only this thread uses them, so no locks.
  curl_share_setopt(sessions_, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION);
  for (const std::string& entry : options_.resolve) resolve_ = curl_slist_append(resolve_, entry.c_str());
  auto set = [this](CURLMoption option, auto value) { curl_multi_setopt(multi_, option, value); };
  set(CURLMOPT_SOCKETFUNCTION, &OnSocket);
  set(CURLMOPT_SOCKETDATA, this);
  set(CURLMOPT_TIMERFUNCTION, &OnTimer);
  set(CURLMOPT_TIMERDATA, this);
  set(CURLMOPT_PIPELINING, static_cast<long>(CURLPIPE_NOTHING));
  set(CURLMOPT_MAX_TOTAL_CONNECTIONS, static_cast<long>(max_connections));
  set(CURLMOPT_MAXCONNECTS, static_cast<long>(max_connections));
  return {};
}

CurlLoop::~CurlLoop() {
  if (thread_.joinable()) {
    {
      std::lock_guard lock(mutex_);
      closing_ = true;
    }
    Wake();
    thread_.join();
  }
  for (CURL* easy : spare_) curl_easy_cleanup(easy);
  if (multi_ != nullptr) curl_multi_cleanup(multi_);
  if (sessions_ != nullptr) curl_share_cleanup(sessions_);
  curl_slist_free_all(resolve_);
  if (wake_ >= 0) close(wake_);
  if (epoll_ >= 0) close(epoll_);
}

void CurlLoop::Begin(CurlTransfer& transfer) {
  load_.fetch_add(1, std::memory_order_relaxed);
  bool first;
  {
    std::lock_guard lock(mutex_);
    first = arrivals_.empty() && cancellations_.empty();
    arrivals_.push_back(&transfer);
  }
  if (first) Wake();
}

void CurlLoop::Cancel(CurlTransfer& transfer) {
  Cancellation cancellation{&transfer};
  {
    std::lock_guard lock(mutex_);
    cancellations_.push_back(&cancellation);
  }
  Wake();
  // Not until `done` but until the message was read: it points to our stack, too.
  std::unique_lock lock(transfer.mutex);
  transfer.wake.wait(lock, [&] { return cancellation.seen; });
}

void CurlLoop::Wake() {
  uint64_t one = 1;
  while (write(wake_, &one, sizeof(one)) < 0 && errno == EINTR) {
  }
}

void CurlLoop::Run() {
  std::array<epoll_event, 128> events;
  while (true) {
    int timeout = lost_while_connecting_ ? 0 : -1;
    if (timeout != 0 && timer_ != Instant::max()) {
      auto left = std::chrono::ceil<std::chrono::milliseconds>(timer_ - RealClock().Now()).count();
      timeout = static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
    }
    int count = epoll_wait(epoll_, events.data(), events.size(), timeout);
    for (int i = 0; i < count; ++i) {
      if (events[i].data.fd == wake_) {
        uint64_t times;
        while (read(wake_, &times, sizeof(times)) < 0 && errno == EINTR) {
        }
        if (!TakeMessages()) return;
        continue;
      }
      uint32_t seen = events[i].events;
      Act(events[i].data.fd, (seen & (EPOLLIN | EPOLLHUP | EPOLLERR) ? CURL_CSELECT_IN : 0) |
                                 (seen & EPOLLOUT ? CURL_CSELECT_OUT : 0) | (seen & EPOLLERR ? CURL_CSELECT_ERR : 0));
    }
    if (timer_ != Instant::max() && RealClock().Now() >= timer_) {
      timer_ = Instant::max();
      Act(CURL_SOCKET_TIMEOUT, 0);
    }
    if (lost_while_connecting_) TryNextAddresses();
    Harvest();
  }
}

// When the first address of a host refuses, libcurl goes on to the next one only when it is run again, and in event mode
// that would be at its next timer: up to half the connect timeout away.
void CurlLoop::TryNextAddresses() {
  lost_while_connecting_ = false;
  int running = 0;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  curl_multi_socket_all(multi_, &running);  // curl_multi_perform would not report the sockets that it opens
#pragma GCC diagnostic pop
}

bool CurlLoop::TakeMessages() {
  std::vector<CurlTransfer*> arrivals;
  std::vector<Cancellation*> cancellations;
  {
    std::lock_guard lock(mutex_);
    if (closing_) return false;
    arrivals.swap(arrivals_);
    cancellations.swap(cancellations_);
  }
  for (CurlTransfer* transfer : arrivals) Add(*transfer);
  for (Cancellation* cancellation : cancellations) {
    CurlTransfer& transfer = *cancellation->transfer;
    if (transfer.easy() != nullptr) Release(transfer);
    std::lock_guard lock(transfer.mutex);
    cancellation->seen = true;
    transfer.wake.notify_one();
  }
  return true;
}

void CurlLoop::Add(CurlTransfer& transfer) {
  CURL* easy = nullptr;
  if (!spare_.empty()) {
    easy = spare_.back();
    spare_.pop_back();
  } else if ((easy = curl_easy_init()) != nullptr) {
    CurlTransfer::PrepareOnce(easy, options_);
    curl_easy_setopt(easy, CURLOPT_SHARE, sessions_);
    curl_easy_setopt(easy, CURLOPT_RESOLVE, resolve_);
  }
  if (easy == nullptr) {
    transfer.Finish(CURLE_OUT_OF_MEMORY);
    load_.fetch_sub(1, std::memory_order_relaxed);
    transfer.MarkDone();
    return;
  }
  transfer.Attach(easy);
  curl_multi_add_handle(multi_, easy);
}

void CurlLoop::Release(CurlTransfer& transfer) {
  CURL* easy = transfer.easy();
  curl_multi_remove_handle(multi_, easy);
  transfer.Detach();
  if (spare_.size() < kMaxSpareHandles) {
    spare_.push_back(easy);
  } else {
    curl_easy_cleanup(easy);
  }
  load_.fetch_sub(1, std::memory_order_relaxed);
  transfer.MarkDone();
}

void CurlLoop::Harvest() {
  int left = 0;
  while (CURLMsg* message = curl_multi_info_read(multi_, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    CurlTransfer* transfer = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
    transfer->Finish(message->data.result);
    Release(*transfer);
  }
}

void CurlLoop::Act(curl_socket_t socket, int events) {
  int running = 0;
  curl_multi_socket_action(multi_, socket, events, &running);
}

int CurlLoop::OnSocket(CURL* easy, curl_socket_t socket, int what, void* self, void* known) {
  auto& loop = *static_cast<CurlLoop*>(self);
  if (what == CURL_POLL_REMOVE) {
    CurlTransfer* transfer = nullptr;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &transfer);
    if (transfer != nullptr && !transfer->sent()) loop.lost_while_connecting_ = true;
    // A socket that never connected may have been closed before we are told, and its number given to somebody else. That is fine: epoll
    // goes by the file, not the number, and does not know the other's. The bare system call keeps ThreadSanitizer from seeing a race in it.
    syscall(SYS_epoll_ctl, loop.epoll_, EPOLL_CTL_DEL, socket, nullptr);
    return 0;
  }
  uint32_t wanted = (what & CURL_POLL_IN ? EPOLLIN : 0u) | (what & CURL_POLL_OUT ? EPOLLOUT : 0u);
  epoll_event event{.events = wanted, .data = {.fd = socket}};
  if (known == nullptr) curl_multi_assign(loop.multi_, socket, self);
  int first = known == nullptr ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, second = known == nullptr ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
  if (epoll_ctl(loop.epoll_, first, socket, &event) != 0) epoll_ctl(loop.epoll_, second, socket, &event);
  return 0;
}

int CurlLoop::OnTimer(CURLM*, long milliseconds, void* self) {
  auto& loop = *static_cast<CurlLoop*>(self);
  loop.timer_ = milliseconds < 0 ? Instant::max() : RealClock().Now() + std::chrono::milliseconds(milliseconds);
  return 0;
}

}  // namespace headrace
