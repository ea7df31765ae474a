#include "store/s3/credentials.h"

#include <utility>
#include <vector>

#include "base/text.h"
#include "store/s3/credentials_environment.h"
#include "store/s3/credentials_metadata.h"
#include "store/s3/credentials_profile.h"
#include "store/s3/credentials_refresh.h"
#include "store/s3/credentials_role.h"
#include "store/s3/credentials_search.h"

namespace headrace {
namespace {

// The places in their order. Once one has given credentials it alone is asked again: a run must not change its identity half-way.
//
// Not thread-safe; `RefreshingCredentials` makes one call at a time.
class CredentialChain {
 public:
  explicit CredentialChain(CredentialSearch search) : search_(std::move(search)) {
    const CredentialSearch& s = search_;
    places_ = {
        {"options", [&s](const Deadline&) { return LookInOptions(s); }},
        {"environment", [&s](const Deadline&) { return LookInEnvironment(s); }},
        {"assumed role", [&s](const Deadline& deadline) { return LookForAssumedRole(s, deadline); }},
        {"web identity", [&s](const Deadline& deadline) { return LookForWebIdentity(s, deadline); }},
        {"profile", [&s](const Deadline& deadline) { return LookInProfile(s, deadline); }},
        {"container", [&s](const Deadline& deadline) { return LookAtContainer(s, deadline); }},
        {"EC2 instance", [&s](const Deadline& deadline) { return LookAtInstance(s, deadline); }},
    };
  }
  CredentialChain(const CredentialChain&) = delete;
  CredentialChain& operator=(const CredentialChain&) = delete;

  Result<Credentials> Find(const Deadline& deadline) { return giver_ == nullptr ? LookEverywhere(deadline) : AskAgain(deadline); }

 private:
  struct Place {
    std::string name;
    std::function<Result<CredentialFinding>(const Deadline&)> look;
  };

  Result<Credentials> LookEverywhere(const Deadline& deadline) {
    std::string reasons;
    for (const Place& place : places_) {
      Result<CredentialFinding> finding = place.look(deadline);
      if (!finding.ok()) return finding.status().Annotate("cannot get AWS credentials");
      if (finding->credentials) {
        giver_ = &place;
        return *std::move(finding->credentials);
      }
      reasons += Cat("\n  ", place.name, ": ", finding->reason);
    }
    return Status(Code::kDenied, Cat("found no AWS credentials. Looked at", reasons,
                                     "\nSet AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or AWS_PROFILE; "
                                     "for a public bucket, or a server that wants none, add ?unsigned=true to the URI"));
  }

  Result<Credentials> AskAgain(const Deadline& deadline) {
    Result<CredentialFinding> finding = giver_->look(deadline);
    if (finding.ok() && finding->credentials) return *std::move(finding->credentials);
    std::string_view what = "cannot renew AWS credentials";
    if (finding.ok()) return Status(Code::kUnavailable, Cat(what, ": ", giver_->name, ": ", finding->reason));
    // Who gave credentials once is likely to do so again: worth the retries that a refusal does not get.
    if (finding.code() == Code::kDenied) return Status(Code::kUnavailable, finding.status().message()).Annotate(what);
    return finding.status().Annotate(what);
  }

  const CredentialSearch search_;
  std::vector<Place> places_;
  const Place* giver_ = nullptr;
};

}  // namespace

std::shared_ptr<CredentialSource> MakeCredentialChain(CredentialOptions options, Surroundings surroundings,
                                                      std::shared_ptr<HttpClient> http, Executor& executor, Random random) {
  if (options.profile && options.profile->empty()) options.profile.reset();
  auto chain = std::make_shared<CredentialChain>(
      CredentialSearch{std::move(options), std::move(surroundings), std::move(http), executor.clock()});
  return std::make_shared<RefreshingCredentials>([chain](const Deadline& deadline) { return chain->Find(deadline); }, executor,
                                                 random);
}

}  // namespace headrace
