#include "store/s3/curl_engine.h"

#include <curl/curl.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <mutex>
#include <vector>

#include "base/size.h"
#include "base/text.h"
#include "store/s3/curl_loop.h"
#include "store/s3/curl_transfer.h"

namespace headrace {
namespace {

class CurlEngine final : public HttpClient {
 public:
  CurlEngine(CurlOptions options, std::vector<std::unique_ptr<CurlLoop>> loops)
      : options_(std::move(options)), loops_(std::move(loops)) {}

  ~CurlEngine() override {
    if (getpid() == pid_) return;
    // The child of a fork has the memory but not the threads: nothing here can be ended properly.
    for (std::unique_ptr<CurlLoop>& loop : loops_) static_cast<void>(loop.release());
  }

  Result<HttpResponse> Do(const HttpRequest& request, const Deadline& deadline, HttpFailure* failure) override {
    HttpFailure ignored;
    HttpFailure& told = failure != nullptr ? *failure : ignored;
    told = {};
    auto fail = [&](Status status, bool sent) {
      told.sent = sent;
      return told.status = status;
    };
    if (getpid() != pid_) {
      return fail(Status(Code::kUnsupported, Cat("cannot reach ", HostOf(request.url),
                                                 ": this process was forked from one that had opened the store; "
                                                 "open it anew in the child, or start children by spawn")),
                  false);
    }
    if (Status time = deadline.Check(RealClock(), Cat(request.method, " at ", HostOf(request.url))); !time.ok())
      return fail(time, false);

    CurlTransfer transfer(request, options_);
    CurlLoop& loop = LeastBusy();
    loop.Begin(transfer);
    Status given_up = Await(transfer, request, deadline);
    if (!given_up.ok()) loop.Cancel(transfer);
    if (!transfer.finished()) return fail(given_up, transfer.sent());
    told.too_long = transfer.too_long();
    if (!transfer.failure().ok()) return fail(transfer.failure(), transfer.sent());
    return transfer.TakeResponse();
  }

 private:
  // Ties go to the first, so that light traffic stays on few connections.
  CurlLoop& LeastBusy() {
    return **std::ranges::min_element(loops_, {}, [](const auto& loop) { return loop->load(); });
  }

  // Ok when the transfer is done; else why there is no point in waiting longer.
  Status Await(CurlTransfer& transfer, const HttpRequest& request, const Deadline& deadline) {
    std::stop_callback on_stop(deadline.stop(), [&transfer] {
      std::lock_guard lock(transfer.mutex);
      transfer.wake.notify_one();
    });
    std::unique_lock lock(transfer.mutex);
    while (!transfer.done) {
      Instant now = RealClock().Now();
      std::string what = Cat(request.method, " at ", HostOf(request.url));
      HR_RETURN_IF_ERROR(deadline.Check(RealClock(), what));
      Instant until = std::min(deadline.at(), now + options_.stall_timeout);
      if (int64_t last = transfer.last_activity(); last != 0) {
        Instant stalled = Instant(Duration(last)) + options_.stall_timeout;
        if (now >= stalled) {
          return Status(Code::kUnavailable, Cat(what, ": no byte moved for ", FormatDuration(options_.stall_timeout),
                                                "; gave up on this connection"));
        }
        until = std::min(until, stalled);
      }
      transfer.wake.wait_until(lock, until);
    }
    return {};
  }

  const CurlOptions options_;
  const pid_t pid_ = getpid();
  std::vector<std::unique_ptr<CurlLoop>> loops_;
};

}  // namespace

Result<std::shared_ptr<HttpClient>> MakeCurlEngine(const CurlOptions& options) {
  static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (ready != CURLE_OK) return Status(Code::kInternal, Cat("libcurl cannot be used: ", curl_easy_strerror(ready)));
  if (!options.ca_file.empty() && !std::ifstream(options.ca_file).good()) {
    return Status(Code::kInvalidArgument,
                  Cat("the certificates in ", options.ca_file, " cannot be read; check ca_file and AWS_CA_BUNDLE"));
  }
  size_t threads = std::max<size_t>(1, options.event_threads);
  std::vector<std::unique_ptr<CurlLoop>> loops;
  for (size_t i = 0; i < threads; ++i) {
    HR_ASSIGN_OR_RETURN(std::unique_ptr<CurlLoop> loop,
                        CurlLoop::Start(options, std::max<size_t>(1, options.max_connections / threads)));
    loops.push_back(std::move(loop));
  }
  return std::shared_ptr<HttpClient>(std::make_shared<CurlEngine>(options, std::move(loops)));
}

Result<std::shared_ptr<HttpClient>> SharedCurlEngine(const CurlOptions& options) {
  struct Shared {
    CurlOptions options;
    pid_t pid;
    std::weak_ptr<HttpClient> engine;
  };
  static std::mutex mutex;
  static std::vector<Shared> all;
  std::lock_guard lock(mutex);
  std::erase_if(all, [](const Shared& shared) { return shared.engine.expired(); });
  for (const Shared& shared : all) {
    if (shared.options != options || shared.pid != getpid()) continue;
    if (std::shared_ptr<HttpClient> engine = shared.engine.lock()) return engine;
  }
  HR_ASSIGN_OR_RETURN(std::shared_ptr<HttpClient> engine, MakeCurlEngine(options));
  all.push_back({options, getpid(), engine});
  return engine;
}

}  // namespace headrace
