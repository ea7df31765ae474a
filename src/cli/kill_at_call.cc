#include "cli/kill_at_call.h"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <string_view>
#include <type_traits>

#include "base/text.h"
#include "store/decorator.h"

namespace headrace::cli {
namespace {

std::atomic<uint64_t> g_calls = 0;

class KillAtCall final : public StoreDecorator {
 public:
  KillAtCall(std::shared_ptr<ObjectStore> inner, uint64_t at, bool after)
      : StoreDecorator(std::move(inner)), at_(at), after_(after) {}

  using ObjectStore::Get;
  Result<std::optional<Object>> Get(const std::string& key, const GetOptions& options, const Deadline& deadline) override {
    return Do([&] { return inner().Get(key, options, deadline); });
  }
  Result<PutOutcome> PutIfAbsent(const std::string& key, const Body& body, const Deadline& deadline) override {
    return Do([&] { return inner().PutIfAbsent(key, body, deadline); });
  }
  Status Put(const std::string& key, const Body& body, const Deadline& deadline) override {
    return Do([&] { return inner().Put(key, body, deadline); });
  }
  Result<ListPage> List(const ListOptions& options, const Deadline& deadline) override {
    return Do([&] { return inner().List(options, deadline); });
  }
  Status Delete(std::span<const std::string> keys, const Deadline& deadline) override {
    return Do([&] { return inner().Delete(keys, deadline); });
  }

 private:
  template <typename Call>
  std::invoke_result_t<Call> Do(const Call& call) {
    bool dies = ++g_calls == at_;
    if (dies && !after_) std::raise(SIGKILL);
    auto answer = call();
    if (dies) std::raise(SIGKILL);
    return answer;
  }

  const uint64_t at_;
  const bool after_;
};

}  // namespace

Result<std::shared_ptr<ObjectStore>> KillAtCallIfAsked(std::shared_ptr<ObjectStore> store) {
  const char* asked = std::getenv("HEADRACE_TEST_KILL_AT");
  if (asked == nullptr) return store;
  std::string_view text = asked;
  bool after = text.ends_with('+');
  if (after) text.remove_suffix(1);
  uint64_t at = 0;
  if (!ParseNumber(text, at) || at == 0) {
    return Status(Code::kInvalidArgument,
                  Cat("HEADRACE_TEST_KILL_AT is \"", asked, "\": a number from 1 on, or one with a + behind it"));
  }
  return std::shared_ptr<ObjectStore>(std::make_shared<KillAtCall>(std::move(store), at, after));
}

}  // namespace headrace::cli
