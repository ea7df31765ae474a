// The words of a recipe, read one by one: each reader says what it found and what it wanted, with the place, and goes on, so that a person sees
// everything that is wrong at once.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "recipe/yaml.h"

namespace headrace {

// Everything that is wrong with one recipe, in the order of the text.
class Problems {
 public:
  explicit Problems(std::string name) : name_(std::move(name)) {}

  void Add(Mark mark, std::string_view path, std::string_view what, Code code = Code::kInvalidArgument);
  bool empty() const { return found_.empty(); }
  // Ok, or all of them, one a line. `kUnsupported` only if that is all there is.
  Status ToStatus() const;
  const std::string& name() const { return name_; }

 private:
  struct Problem {
    Mark mark;
    std::string text;
    Code code;
  };
  std::string name_;
  std::vector<Problem> found_;
};

// A value of the recipe and where it stands.
struct Word {
  const Yaml* yaml;
  std::string path;  // "sources.web.weight"
  Problems* problems;

  void Fail(std::string_view what) const;
  void Unsupported(std::string_view what) const;
  // "a list", "\"fast\"", "nothing": what stands there, for messages.
  std::string Found() const;
  // Wanted `meaning` ("a number of 1 or more"), found something else.
  void Wanted(std::string_view meaning) const;

  bool IsMap() const { return yaml->kind == Yaml::kMap; }
  bool IsList() const { return yaml->kind == Yaml::kList; }
  bool IsScalar() const { return yaml->kind == Yaml::kScalar; }
  // A scalar of just this text.
  bool Is(std::string_view text) const { return IsScalar() && yaml->scalar == text; }
  Word Below(std::string_view key, const Yaml& value) const;
  std::vector<Word> Items() const;  // of a list

  std::optional<std::string> Text(std::string_view meaning) const;  // not empty
  std::optional<bool> Flag() const;
  // 5000, 5_000, 5e3, 5k, 10M, 2B, 1.5T: a whole number.
  std::optional<uint64_t> Count(uint64_t least, uint64_t most, std::string_view meaning) const;
  std::optional<double> Number(std::string_view meaning) const;  // finite, not negative
  std::optional<uint64_t> Bytes() const;  // 1MB
  // One text, or a list of different ones.
  std::optional<std::vector<std::string>> Texts(std::string_view meaning) const;
  // The place of the word among `words`.
  std::optional<size_t> Choice(std::span<const std::string_view> words, std::string_view meaning) const;
  std::optional<size_t> Choice(std::initializer_list<std::string_view> words, std::string_view meaning) const {
    return Choice(std::span(words.begin(), words.size()), meaning);
  }
};

// A map whose keys are known. Unknown ones are problems as soon as it is made.
class Keys {
 public:
  Keys(const Word& word, std::span<const std::string_view> known, std::string_view meaning);
  Keys(const Word& word, std::initializer_list<std::string_view> known, std::string_view meaning)
      : Keys(word, std::span(known.begin(), known.size()), meaning) {}

  // The key's value; nothing if it is not there. A key without a value is a problem, and not there.
  std::optional<Word> Get(std::string_view key) const;
  // The same, and a problem if it is not there; unless an unknown key, which is a problem already, was probably meant to be it.
  std::optional<Word> Need(std::string_view key, std::string_view meaning) const;

 private:
  Word word_;
  std::set<std::string, std::less<>> misspelt_;
};

// "; did you mean weight?", or what there is: "; there are a, b, c".
std::string DidYouMean(std::string_view word, std::span<const std::string_view> known);
// "a, b, c".
std::string Listed(std::span<const std::string_view> words);
std::optional<uint64_t> ParseCount(std::string_view text);

}  // namespace headrace
