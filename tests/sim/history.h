// What really happened to a simulated stream, and whether it was allowed to.
//
// A store that stands next to the truth: it sees every effect in the order in which it happens, keeps the genuine manifests, and checks
// each new one against the one before. Whatever breaks a promise becomes a line in `violations`.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/text.h"
#include "store/decorator.h"
#include "store/memory_store.h"
#include "stream/chunk.h"
#include "stream/manifest.h"

namespace headrace {

class History final : public StoreDecorator {
 public:
  History(std::shared_ptr<MemoryStore> truth, const StreamInfo& info, Rules rules)
      : StoreDecorator(truth), truth_(std::move(truth)), info_(info), rules_(rules) {}

  using ObjectStore::Get;
  Result<PutOutcome> PutIfAbsent(const std::string& key, const Body& body, const Deadline& deadline) override;
  Status Put(const std::string& key, const Body& body, const Deadline& deadline) override;
  Status Delete(std::span<const std::string> keys, const Deadline& deadline) override;

  // Shown every chunk that joins the stream.
  std::function<void(const Entry& entry, const Bytes& object)> on_chunk;

  // Told by the actors.
  void Acknowledged(const ChunkName& name) {
    acknowledged_.push_back(name);
    Witness(name.Key());
  }
  void Refused(const ChunkName& name) {
    refused_.push_back(name);
    Witness(Cat("refused ", name.Key()));
  }
  void Saw(const Manifest& manifest, const Bytes& encoded);
  void Read(uint64_t step, uint32_t lane, const Bytes& cell);
  void Decided(uint64_t decision) { decided_ = std::max(decided_, decision); }
  void Violate(std::string what);

  // When everything has come to rest.
  void CheckAtRest();

  // A hash of what the actors have told, in whatever order.
  uint64_t witnessed() const { return witnessed_; }

  const Manifest& newest() const { return manifests_.back(); }
  bool begun() const { return !manifests_.empty(); }
  const std::vector<std::string>& violations() const { return violations_; }
  // Every block that was ever committed.
  const std::map<uint64_t, Entry>& blocks() const { return blocks_; }
  // Forgotten slots that late writers brought back.
  size_t zombies() const { return zombies_; }
  MemoryStore& truth() { return *truth_; }

 private:
  void OnSlot(uint64_t number, const Body& body);
  void CheckStep(const Manifest& before, const Manifest& after, const std::string& before_encoded);
  void CheckNewChunks(const Manifest& before, const Manifest& after);
  void CheckVisible(const Manifest& after);
  void CheckReferences(const Manifest& before, const Manifest& after);
  void CheckFrontierFits(const Manifest& manifest);
  void OnDelete(const std::string& key);
  void OnDeleteChunk(const ChunkName& name);
  bool Exists(const std::string& key) { return Load(key).has_value(); }
  std::optional<Bytes> Load(const std::string& key);
  void Witness(const std::string& what) { witnessed_ ^= std::hash<std::string>()(what); }

  std::shared_ptr<MemoryStore> truth_;
  const StreamInfo& info_;
  const Rules rules_;
  std::vector<Manifest> manifests_;
  std::vector<std::string> encoded_;
  std::map<uint64_t, Entry> blocks_;
  std::map<ChunkName, uint64_t> block_of_;
  std::map<uint64_t, uint64_t> first_step_;  // of every visible block
  std::vector<ChunkName> acknowledged_, refused_;
  std::map<std::pair<uint64_t, uint32_t>, std::string> reads_;
  uint64_t decided_ = 0;
  uint64_t witnessed_ = 0;
  std::vector<std::string> violations_;
  size_t zombies_ = 0;
};

}  // namespace headrace
