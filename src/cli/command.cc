#include "cli/command.h"

#include <string_view>

#include "base/size.h"

namespace headrace::cli {
namespace {

// CLI11 wants wrong values thrown at it; `main` catches them.
template <typename Value>
CLI::Option* AddParsed(CLI::App& app, const std::string& name, Value& target, const std::string& help, const std::string& unit,
                       Result<Value> (*parse)(std::string_view)) {
  return app
      .add_option_function<std::string>(
          name,
          [&target, name, parse](const std::string& text) {
            Result<Value> value = parse(text);
            if (!value.ok()) throw CLI::ValidationError(name, value.status().message());
            target = *value;
          },
          help)
      ->type_name(unit);
}

Result<uint64_t> ParseRate(std::string_view text) {
  if (text.ends_with("/s")) text.remove_suffix(2);
  return ParseSize(text);
}

}  // namespace

CLI::Option* AddSize(CLI::App& app, const std::string& name, uint64_t& bytes, const std::string& help) {
  return AddParsed<uint64_t>(app, name, bytes, help, "SIZE", ParseSize);
}

CLI::Option* AddRate(CLI::App& app, const std::string& name, uint64_t& bytes_per_second, const std::string& help) {
  return AddParsed<uint64_t>(app, name, bytes_per_second, help, "RATE", ParseRate);
}

CLI::Option* AddDuration(CLI::App& app, const std::string& name, Duration& time, const std::string& help) {
  return AddParsed<Duration>(app, name, time, help, "TIME", ParseDuration);
}

}  // namespace headrace::cli
