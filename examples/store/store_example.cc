// A store from a program: store_example s3://bucket/prefix, or any other URI of docs/guide/stores.md.

#include <headrace/store.h>

#include <chrono>
#include <iostream>

using namespace headrace;
using namespace std::chrono_literals;

namespace {

Status Tour(const std::string& uri) {
  // Asks nobody yet: a wrong password shows at the first call.
  HR_ASSIGN_OR_RETURN(std::shared_ptr<ObjectStore> store, OpenStore(uri));
  const Deadline deadline = Deadline::After(RealClock(), 30s);

  // Creating is how Headrace publishes. "Exists" is an answer, not an error; "unknown" means that the answer was lost.
  for (const char* writer : {"first", "second"}) {
    HR_ASSIGN_OR_RETURN(PutOutcome outcome,
                        store->PutIfAbsent("example/greeting", Body(std::string("written by the ") + writer), deadline));
    constexpr const char* kWords[] = {"created it", "found it taken", "does not know what became of it"};
    std::cout << "the " << writer << " writer " << kWords[outcome.kind] << "\n";
  }

  // A range; the bytes of the whole object come with ByteRange::All(), the last ones with ByteRange::Last(n).
  HR_ASSIGN_OR_RETURN(std::optional<Object> found, store->Get("example/greeting", {.range = ByteRange::At(11, 100)}, deadline));
  if (found) std::cout << "of its " << found->size << " bytes, from the 11th on: " << found->bytes.AsText() << "\n";

  HR_ASSIGN_OR_RETURN(std::vector<ListEntry> entries, ListAll(*store, "example/", deadline));
  for (const ListEntry& entry : entries) std::cout << store->Describe(entry.key) << " has " << entry.size << " bytes\n";

  return store->DeleteOne("example/greeting", deadline);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: store_example URI\n";
    return 2;
  }
  Status status = Tour(argv[1]);
  if (status.ok()) return 0;
  std::cerr << "store_example: " << status.message() << "\n";
  return 1;
}
