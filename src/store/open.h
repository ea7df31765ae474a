// Puts the pieces of a store together, the way a program wants them; `OpenStore` (include/headrace/store.h) is what programs call.
//
//   s3      Retrying(Hedged(Limited(Metered(S3Store))))
//   folder  Retrying(Metered(FolderStore))       with Limited between them if `concurrency` is given
//   mem     Metered(MemoryStore)
//
// Metered is innermost, so that metrics count what the store really got: retries and hedges too. Limited is around it, so that they
// all take turns. Retrying is outermost, so that nobody holds a turn while pausing.
//
// All stores of a process share one executor and, for equal connection options, one HTTP engine; both start when first needed.
#pragma once

#include <memory>
#include <string>

#include "base/executor.h"
#include "headrace/store.h"
#include "store/s3/credentials.h"
#include "store/s3/curl_engine.h"
#include "store/s3/s3_store.h"
#include "store/store_options.h"
#include "store/uri.h"

namespace headrace {

// The threads that all stores of this process work on. Never taken down: a store may be in use until the very end of the process.
// After a fork the child gets a new one.
Executor& SharedExecutor();

// What the S3 store is told: explicit settings first, then the environment (AWS_REGION, AWS_DEFAULT_REGION, AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL,
// AWS_CA_BUNDLE), then the profile of the AWS files (region, endpoint_url).
struct S3Setup {
  S3Config config;
  CurlOptions connections;
  CredentialOptions credentials;
};
Result<S3Setup> ConfigureS3(const StoreUri& uri, const StoreSettings& settings, const Surroundings& surroundings);

// `OpenStore` for a URI that was read already, in surroundings that are passed in.
Result<std::shared_ptr<ObjectStore>> OpenStore(const StoreUri& uri, const StorageOptions& options,
                                               const Surroundings& surroundings);

// The same with one attempt a call and no hedges: for whoever looks at single answers, as `Probe` does.
Result<std::shared_ptr<ObjectStore>> OpenStoreOnce(const StoreUri& uri, StorageOptions options, const Surroundings& surroundings);

}  // namespace headrace
