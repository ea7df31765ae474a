// Create-if-absent with an outcome that can be relied on.
//
// One conditional put cannot say what became of it: its answer may be lost, and the answer "exists" may speak of our own
// request, sent twice by something on the way. So the outcome is never taken from an error. It is looked up: the body
// carries a nonce, nobody else's body equals it, and whoever reads the slot knows whose it is.
//
// The rules, and the interleaving that each of them excludes (docs/design/0001-store.md has them at length):
//
//   "exists" is looked up, not believed.      put lands → answer lost → the wire sends it again → "exists". Believing it: we
//                                             think that we lost, rebase, and commit the same edit a second time.
//   "unknown" is looked up, not retried blind. put lands → answer lost → a rival reads us, builds on us. Taking it for
//                                             a failure: what the slot refers to is deleted under the rival.
//   "absent" does not mean "did not happen".   put is stuck on the way → get: absent → we tell the caller "not created" →
//                                             the put lands. So we put *the same bytes* again: whichever lands, it is ours,
//                                             and the store keeps only one.
//   A certain error after a doubt is a doubt.  put 1 unknown → put 2 "denied" → put 1 lands. Only the first put's certain
//                                             error is an error; later ones leave `kUnknown`.
//   No time left is `kUnknown`.                Nothing that was staged for this create may be deleted then.
//
// It rests on three promises: of the store (atomic create, read after write: store.h), of the caller that the body is
// unique, and of the stream that nobody deletes a slot while somebody may still create it.
//
// Costs one request if all goes well. Thread-safe as the store is; `random` is the caller's own.
#pragma once

#include <string>

#include "base/random.h"
#include "headrace/store.h"

namespace headrace {

struct CreateResult {
  enum Kind {
    kCreated,  // the slot holds our bytes
    kLost,     // the slot holds another's: `winner`
    kUnknown,  // nobody can tell yet: `reason`. It may happen still; keep what was staged
  };
  Kind kind;
  Bytes winner = {};
  Status reason = {};
};

// An error means that certainly nothing was or will be created.
Result<CreateResult> Create(ObjectStore& store, const std::string& key, const Body& body, const Deadline& deadline, Clock& clock,
                            Random& random);

}  // namespace headrace
