// Who we are to AWS: where credentials come from, and how they stay fresh.
//
// The chain is that of the AWS tools, the first source that has something wins: explicit options, environment, the role that a
// profile assumes, web identity token, profile files (with `credential_process`), container, EC2 instance metadata (IMDSv2).
//
// They are renewed well before they end, by one fetch at a time in the background: callers go on with the old ones while those
// are good, and wait only if there are none. A renewal that fails is logged and tried again; it takes nothing away that still
// works. No secret and no token ever stands in a message or a log line.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/executor.h"
#include "base/random.h"
#include "headrace/clock.h"
#include "headrace/deadline.h"
#include "headrace/result.h"
#include "store/s3/http.h"

namespace headrace {

struct Credentials {
  std::string access_key_id;
  std::string secret_access_key;
  std::string session_token;  // empty: none
  std::optional<WallTime> expires;  // none: they do not end
  std::string origin;  // for messages: "environment", "profile dev", "instance role"
};

// Thread-safe.
class CredentialSource {
 public:
  virtual ~CredentialSource() = default;
  // Credentials that are good for a while yet. Fails with kDenied if there are none to be had, saying where it looked.
  virtual Result<Credentials> Get(const Deadline& deadline) = 0;
  // These were refused as expired: do not hand them out again.
  virtual void Invalidate(const Credentials& refused) = 0;
};

// What the process knows of its surroundings, passed in for tests.
struct Surroundings {
  std::function<std::optional<std::string>(const std::string& name)> env;  // a variable, if it is set and not empty
  std::function<Result<std::optional<std::string>>(const std::string& path)> read;  // a file's content, nothing if it is absent
  std::function<Result<std::string>(const std::string& command, const Deadline&)> run;  // a shell command's standard output
  static Surroundings Process();
};

// What a store's options say about credentials; unset fields are looked for in the surroundings.
struct CredentialOptions {
  std::optional<std::string> access_key_id, secret_access_key, session_token, profile;
  std::string region;  // for the STS endpoint
};

// The chain. Asks nobody before the first `Get`. The executor must outlive it; `random` spreads the renewals of many machines.
std::shared_ptr<CredentialSource> MakeCredentialChain(CredentialOptions options, Surroundings surroundings,
                                                      std::shared_ptr<HttpClient> http, Executor& executor,
                                                      Random random = Random::FromEntropy());

// One value out of the profile of `~/.aws/config` (or AWS_CONFIG_FILE): "region", "endpoint_url".
Result<std::optional<std::string>> ProfileSetting(const Surroundings& surroundings, const std::optional<std::string>& profile,
                                                  const std::string& name);

}  // namespace headrace
