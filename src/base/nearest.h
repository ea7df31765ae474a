// "Did you mean …?": the word that somebody probably wanted to write.
#pragma once

#include <span>
#include <string_view>

namespace headrace {

// The candidate that is nearest to `word` by insertions, deletions, replacements and swaps of neighbours, capitals aside; the first
// one of several. Empty if none is near enough to be more than a guess: about one slip for every three letters.
std::string_view Nearest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace headrace
