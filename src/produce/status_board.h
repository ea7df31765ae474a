// Small JSON objects with a counter, status/<role>-<id>: who is there, how far they are and how fast. For flow control and for people, never for safety.
//
// A participant whose counter stood still for a while on our own clock is taken for dead; a wrong guess costs time, nothing else.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "headrace/clock.h"
#include "headrace/store.h"

namespace headrace {

class StatusBoard {
 public:
  StatusBoard(ObjectStore& store, Clock& clock, Duration patience) : store_(store), clock_(clock), patience_(patience) {}

  struct Participant {
    std::string key;
    nlohmann::json status;
    bool alive = true;
  };
  // Reads all of one role ("producer", "loader").
  Status Refresh(const std::string& role, const Deadline& deadline);
  std::vector<Participant> Of(const std::string& role) const;

  // Our own; the counter is added.
  Status Write(const std::string& role, const std::string& id, nlohmann::json status, const Deadline& deadline);
  Status Remove(const std::string& role, const std::string& id, const Deadline& deadline);

 private:
  struct Seen {
    nlohmann::json status;
    uint64_t counter = 0;
    Instant since{};
    std::string role;
  };
  ObjectStore& store_;
  Clock& clock_;
  const Duration patience_;
  std::map<std::string, Seen> seen_;
  uint64_t counter_ = 0;
};

}  // namespace headrace
