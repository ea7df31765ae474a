// The rules of a protocol, each of which a test can break to see that somebody notices.
//
// A protocol lists its rules in an enum and asks `Holds(rule)` where it obeys one. Outside of tests every rule holds.
#pragma once

#include <bitset>
#include <cstddef>

namespace headrace {

class Rules {
 public:
  Rules() = default;
  template <typename Rule>
  static Rules Without(Rule rule) {
    Rules rules;
    rules.Break(rule);
    return rules;
  }
  template <typename Rule>
  void Break(Rule rule) {
    broken_.set(static_cast<size_t>(rule));
  }

  template <typename Rule>
  bool Holds(Rule rule) const {
    return !broken_.test(static_cast<size_t>(rule));
  }

 private:
  std::bitset<64> broken_;
};

}  // namespace headrace
