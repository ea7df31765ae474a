// Credentials that are renewed before they end.
//
// A caller gets the ones at hand while they are good. In the last minutes of their life (five, or a quarter of a short life)
// the next caller starts a renewal in the background and goes on with the old ones. Only a caller who finds none that will last
// its request fetches them itself; others wait for it. So there is one fetch at a time, whoever runs it.
//
// A renewal that fails is logged and tried again after a pause; old credentials are handed out to their very end. Credentials
// that were refused (`Invalidate`) are never handed out again: if nobody has newer ones, that is an error.
//
// Thread-safe. The lock is never held across a fetch. The executor must outlive this; the destructor asks a renewal in flight
// to stop.
#pragma once

#include <functional>
#include <memory>

#include "base/executor.h"
#include "base/random.h"
#include "store/s3/credentials.h"

namespace headrace {

class RefreshingCredentials final : public CredentialSource {
 public:
  using Fetch = std::function<Result<Credentials>(const Deadline&)>;

  RefreshingCredentials(Fetch fetch, Executor& executor, Random random);
  ~RefreshingCredentials() override;

  Result<Credentials> Get(const Deadline& deadline) override;
  void Invalidate(const Credentials& refused) override;

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with a renewal in the background
};

}  // namespace headrace
