#include "stream/mixture_object.h"

#include "base/text.h"

namespace headrace {

std::string MixtureKey(uint32_t number, uint64_t nonce) { return Cat("mixtures/", number, "-", Hex(&nonce, sizeof(nonce))); }

Result<MixtureObject> ReadMixtureObject(StreamLog& log, uint32_t number, const Deadline& deadline) {
  std::string key;
  StreamLog::StatePtr state = log.known();
  for (const MixtureRef& ref : state->manifest.mixtures) {
    if (ref.number == number) key = MixtureKey(number, ref.nonce);
  }
  if (key.empty()) {
    HR_ASSIGN_OR_RETURN(std::vector<ListEntry> found, ListAll(log.store(), Cat("mixtures/", number, "-"), deadline));
    if (found.size() != 1)
      return Status(Code::kNotFound,
                    Cat("mixture ", number, " of ", log.store().Describe(), " is too old to be told apart from refused ones"));
    key = found.front().key;
  }
  HR_ASSIGN_OR_RETURN(std::optional<Object> object, log.store().Get(key, deadline));
  if (!object) return Status(Code::kCorrupt, Cat(log.store().Describe(key), " is gone; the stream refers to it"));
  return MixtureObject{std::move(key), std::move(object->bytes)};
}

}  // namespace headrace
