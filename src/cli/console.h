// Where a command's words go: answers to stdout, everything else to stderr.
//
// With `--json` stdout carries one JSON document and nothing else; what is meant for people is dropped.
//
// Not thread-safe: it belongs to the thread that runs the command. Never throws: a closed pipe shows in `Flush`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "headrace/status.h"

namespace headrace::cli {

class Console {
 public:
  // Looks at the locale and at whether stdout is a terminal. NO_COLOR and TERM=dumb are heard.
  explicit Console(bool json);

  bool json() const { return json_; }

  // A line of the answer, for people.
  void Say(std::string_view line) const;
  // The answer, for machines. Once.
  void SayJson(const nlohmann::json& document) const;
  // "headrace probe: cannot …" on stderr.
  void Complain(std::string_view command, const Status& failure) const;
  // The same, and with `--json` also {"error": {"code", "message"}} on stdout: the failure is all the answer there is.
  void Fail(std::string_view command, const Status& failure) const;

  // ✓ and ✗, or "ok" and "NO" where the terminal cannot show them; in colour where it can. All of one width.
  std::string Mark(bool good) const;
  std::string Bold(std::string_view text) const;
  // `fancy` where the locale is UTF-8, `plain` elsewhere.
  std::string_view Pick(std::string_view fancy, std::string_view plain) const { return unicode_ ? fancy : plain; }

  // True if everything that was said has really been written.
  bool Flush() const;

 private:
  const bool json_;
  const bool unicode_;
  const bool color_;
};

// The package `headrace` started this program, and tells people about its errors itself.
bool CalledByPython();

// True if the locale of the environment (LC_ALL, LC_CTYPE, LANG) writes UTF-8.
bool LocaleIsUtf8();

}  // namespace headrace::cli
