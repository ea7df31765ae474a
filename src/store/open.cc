#include "store/open.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "base/metrics.h"
#include "base/random.h"
#include "base/text.h"
#include "base/thread_executor.h"
#include "store/folder_store.h"
#include "store/hedged_store.h"
#include "store/limited_store.h"
#include "store/memory_store.h"
#include "store/metered_store.h"
#include "store/prefixed_store.h"
#include "store/retrying_store.h"

namespace headrace {
namespace {

using Store = std::shared_ptr<ObjectStore>;

std::atomic<ThreadExecutor*> shared_executor = nullptr;

// The first of these variables that is set.
std::optional<std::string> FirstOf(const Surroundings& surroundings, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (std::optional<std::string> value = surroundings.env(name)) return value;
  }
  return std::nullopt;
}

Store Metered(Store store, std::string name) {
  return std::make_shared<MeteredStore>(std::move(store), std::move(name), Metrics::Default(), RealClock());
}

Store Limited(Store store, std::string name, const StoreSettings& settings) {
  LimitOptions options;
  if (settings.concurrency) {
    options.max = *settings.concurrency;
    options.start = std::min(options.start, options.max);
    options.min = std::min(options.min, options.max);
  }
  options.metrics = &Metrics::Default();
  options.name = std::move(name);
  return std::make_shared<LimitedStore>(std::move(store), options, SharedExecutor());
}

Store Retrying(Store store, const StoreSettings& settings) {
  RetryOptions options;
  if (settings.retries) options.max_attempts = static_cast<int>(std::min<uint64_t>(*settings.retries, 1000)) + 1;
  if (settings.timeout) options.attempt_timeout = *settings.timeout;
  return std::make_shared<RetryingStore>(std::move(store), options, RealClock(), Random::FromEntropy());
}

Result<Store> OpenS3(const StoreUri& uri, const StoreSettings& settings, const Surroundings& surroundings) {
  HR_ASSIGN_OR_RETURN(S3Setup setup, ConfigureS3(uri, settings, surroundings));
  HR_ASSIGN_OR_RETURN(std::shared_ptr<HttpClient> http, SharedCurlEngine(setup.connections));
  std::shared_ptr<CredentialSource> credentials;
  if (!setup.config.unsigned_requests) {
    credentials = MakeCredentialChain(setup.credentials, surroundings, http, SharedExecutor());
  }
  HR_ASSIGN_OR_RETURN(Store store,
                      MakeS3Store(setup.config, std::move(credentials), std::move(http), SharedExecutor(), RealClock()));
  std::string name = "s3://" + uri.name;
  store = Limited(Metered(std::move(store), name), name, settings);
  if (settings.hedge.value_or(true)) store = std::make_shared<HedgedStore>(std::move(store), HedgeOptions{}, SharedExecutor());
  return Retrying(std::move(store), settings);
}

Result<Store> OpenFolder(const StoreUri& uri, const StoreSettings& settings) {
  FolderOptions options;
  options.sync = settings.sync.value_or(true);
  auto folder = std::make_shared<FolderStore>(uri.path, options);
  std::string name = folder->root();
  Store store = Metered(std::move(folder), name);
  if (settings.concurrency) store = Limited(std::move(store), name, settings);
  return Retrying(std::move(store), settings);
}

Result<Store> OpenMemory(const StoreUri& uri) {
  Store store = Metered(MemoryStore::Named(uri.name), "mem://" + uri.name);
  if (!uri.path.empty()) store = std::make_shared<PrefixedStore>(std::move(store), uri.path);
  return store;
}

}  // namespace

Executor& SharedExecutor() {
  // A fork takes none of the threads along. What the parent had is left alone: its locks may be in any state.
  static const int registered = pthread_atfork(nullptr, nullptr, [] { shared_executor = nullptr; });
  static_cast<void>(registered);
  ThreadExecutor* executor = shared_executor;
  if (executor != nullptr) return *executor;
  auto fresh = std::make_unique<ThreadExecutor>();
  if (shared_executor.compare_exchange_strong(executor, fresh.get())) executor = fresh.release();
  return *executor;
}

Result<S3Setup> ConfigureS3(const StoreUri& uri, const StoreSettings& settings, const Surroundings& surroundings) {
  auto from_profile = [&](const std::string& name) { return ProfileSetting(surroundings, settings.profile, name); };
  S3Setup setup;
  S3Config& config = setup.config;
  config.bucket = uri.name;
  config.prefix = uri.path;

  std::optional<std::string> region = settings.region;
  if (!region) region = FirstOf(surroundings, {"AWS_REGION", "AWS_DEFAULT_REGION"});
  if (!region) {
    HR_ASSIGN_OR_RETURN(region, from_profile("region"));
  }
  if (region) config.region = *region;

  std::optional<std::string> endpoint = settings.endpoint;
  bool ignore = Lower(surroundings.env("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS").value_or("")) == "true";
  if (!endpoint && !ignore) {
    endpoint = FirstOf(surroundings, {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"});
    if (!endpoint) {
      HR_ASSIGN_OR_RETURN(endpoint, from_profile("endpoint_url"));
    }
  }
  if (endpoint) config.endpoint = *endpoint;

  config.addressing = settings.addressing.value_or(config.addressing);
  config.allow_http = settings.allow_http.value_or(config.allow_http);
  config.unsigned_requests = settings.unsigned_requests.value_or(config.unsigned_requests);
  config.requester_pays = settings.requester_pays.value_or(config.requester_pays);
  config.express = settings.express;
  config.multipart_threshold = settings.multipart_threshold.value_or(config.multipart_threshold);
  config.part_bytes = settings.part_size.value_or(config.part_bytes);

  std::optional<std::string> ca_file = settings.ca_file ? settings.ca_file : surroundings.env("AWS_CA_BUNDLE");
  setup.connections.ca_file = ca_file.value_or("");
  setup.connections.connect_timeout = settings.connect_timeout.value_or(setup.connections.connect_timeout);

  setup.credentials = {.access_key_id = settings.access_key_id,
                       .secret_access_key = settings.secret_access_key,
                       .session_token = settings.session_token,
                       .profile = settings.profile,
                       .region = config.region};
  return setup;
}

Result<Store> OpenStore(const StoreUri& uri, const StorageOptions& options, const Surroundings& surroundings) {
  HR_ASSIGN_OR_RETURN(StoreSettings settings, ReadStoreSettings(uri, options));
  switch (uri.scheme) {
    case StoreUri::Scheme::kS3: return OpenS3(uri, settings, surroundings);
    case StoreUri::Scheme::kFile: return OpenFolder(uri, settings);
    case StoreUri::Scheme::kMemory: return OpenMemory(uri);
  }
  return Status(Code::kInternal, Cat(uri.ToString(), ": a scheme without a store"));
}

Result<Store> OpenStoreOnce(const StoreUri& uri, StorageOptions options, const Surroundings& surroundings) {
  if (uri.scheme != StoreUri::Scheme::kMemory) options.insert_or_assign("retries", std::string("0"));
  if (uri.scheme == StoreUri::Scheme::kS3) options.insert_or_assign("hedge", std::string("false"));
  return OpenStore(uri, options, surroundings);
}

Result<Store> OpenStore(const std::string& uri, const StorageOptions& options) {
  HR_ASSIGN_OR_RETURN(StoreUri parsed, ParseStoreUri(uri));
  return OpenStore(parsed, options, Surroundings::Process());
}

}  // namespace headrace
