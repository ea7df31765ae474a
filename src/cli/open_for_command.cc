#include "cli/open_for_command.h"

#include "base/random.h"
#include "cli/kill_at_call.h"
#include "store/retrying_store.h"

namespace headrace::cli {
namespace {

constexpr Duration kFirstAnswer = std::chrono::seconds(20);

bool IsLoopback(const std::string& endpoint) {
  for (const char* host : {"://127.", "://localhost", "://[::1]"}) {
    if (endpoint.find(host) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

Result<OpenedStore> OpenForCommand(const std::string& text) {
  OpenedStore opened;
  HR_ASSIGN_OR_RETURN(opened.uri, ParseStoreUri(text));
  const Surroundings surroundings = Surroundings::Process();
  if (opened.uri.scheme == StoreUri::Scheme::kS3) {
    HR_ASSIGN_OR_RETURN(StoreSettings settings, ReadStoreSettings(opened.uri, {}));
    HR_ASSIGN_OR_RETURN(S3Setup setup, ConfigureS3(opened.uri, settings, surroundings));
    opened.on_this_machine = IsLoopback(setup.config.endpoint);
  }
  HR_ASSIGN_OR_RETURN(opened.store, OpenStore(opened.uri, {}, surroundings));
  HR_ASSIGN_OR_RETURN(opened.once, OpenStoreOnce(opened.uri, {}, surroundings));
  HR_ASSIGN_OR_RETURN(opened.store, KillAtCallIfAsked(opened.store));
  HR_ASSIGN_OR_RETURN(opened.once, KillAtCallIfAsked(opened.once));
  return opened;
}

Status Reach(const OpenedStore& opened, std::stop_token stop) {
  RetryingStore hasty(opened.once, {.max_attempts = 3}, RealClock(), Random::FromEntropy());
  return hasty.List({.limit = 1}, Deadline::After(RealClock(), kFirstAnswer, std::move(stop))).status();
}

}  // namespace headrace::cli
