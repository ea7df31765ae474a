#include "base/nearest.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/text.h"

namespace headrace {
namespace {

// Optimal string alignment: each letter takes part in one slip at the most.
size_t Slips(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, above);
    std::swap(above, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view Nearest(std::string_view word, std::span<const std::string_view> candidates) {
  std::string wanted = Lower(word);
  std::string_view best;
  size_t fewest = std::max<size_t>(1, wanted.size() / 3) + 1;
  for (std::string_view candidate : candidates) {
    size_t slips = Slips(wanted, Lower(candidate));
    // A word that shares no letter with what was written is no suggestion, however short both are.
    if (slips < fewest && slips < std::max(wanted.size(), candidate.size())) {
      fewest = slips;
      best = candidate;
    }
  }
  return best;
}

}  // namespace headrace
