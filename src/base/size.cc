#include "base/size.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "base/text.h"

namespace headrace {
namespace {

using Wide = unsigned __int128;

struct Unit {
  std::string_view name;
  uint64_t scale;
};

// A spelling that means the same as an earlier one stands behind it: the first is the one that is printed.
constexpr uint64_t kKilo = 1000, kKibi = 1024;
constexpr std::array<Unit, 26> kSizeUnits = {{
    {"", 1},
    {"b", 1},
    {"kb", kKilo},
    {"k", kKilo},
    {"kib", kKibi},
    {"ki", kKibi},
    {"mb", kKilo * kKilo},
    {"m", kKilo * kKilo},
    {"mib", kKibi * kKibi},
    {"mi", kKibi * kKibi},
    {"gb", kKilo * kKilo * kKilo},
    {"g", kKilo * kKilo * kKilo},
    {"gib", 1ull << 30},
    {"gi", 1ull << 30},
    {"tb", 1'000'000'000'000ull},
    {"t", 1'000'000'000'000ull},
    {"tib", 1ull << 40},
    {"ti", 1ull << 40},
    {"pb", 1'000'000'000'000'000ull},
    {"p", 1'000'000'000'000'000ull},
    {"pib", 1ull << 50},
    {"pi", 1ull << 50},
    {"eb", 1'000'000'000'000'000'000ull},
    {"e", 1'000'000'000'000'000'000ull},
    {"eib", 1ull << 60},
    {"ei", 1ull << 60},
}};

constexpr uint64_t kSecond = 1'000'000'000ull;
constexpr std::array<Unit, 10> kTimeUnits = {{
    {"", kSecond},
    {"ns", 1},
    {"us", 1000},
    {"µs", 1000},
    {"ms", 1'000'000},
    {"s", kSecond},
    {"m", 60 * kSecond},
    {"min", 60 * kSecond},
    {"h", 3600 * kSecond},
    {"d", 24 * 3600 * kSecond},
}};

// A decimal number without a sign, exactly: digits · 10^-places.
struct Decimal {
  Wide digits = 0;
  int places = 0;
};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Takes the number at the front of `text` away. Nothing if there is none, or one of more digits than any size has.
std::optional<Decimal> TakeDecimal(std::string_view& text) {
  constexpr int kMostDigits = 24;
  Decimal number;
  int seen = 0;
  size_t at = 0;
  bool point = false;
  for (; at < text.size(); ++at) {
    if (text[at] == '.' && !point) {
      point = true;
    } else if (IsDigit(text[at])) {
      if (++seen > kMostDigits) return std::nullopt;
      number.digits = number.digits * 10 + static_cast<unsigned>(text[at] - '0');
      number.places += point;
    } else {
      break;
    }
  }
  if (seen == 0 || text[at - 1] == '.') return std::nullopt;
  text.remove_prefix(at);
  return number;
}

template <size_t kCount>
const Unit* FindUnit(const std::array<Unit, kCount>& units, std::string_view name) {
  std::string wanted = Lower(name);
  for (const Unit& unit : units) {
    if (unit.name == wanted) return &unit;
  }
  return nullptr;
}

// number · scale, rounded to a whole number; nothing if that does not fit.
std::optional<uint64_t> Scale(Decimal number, uint64_t scale) {
  Wide power = 1;
  for (int i = 0; i < number.places; ++i) power *= 10;
  Wide whole = number.digits / power;
  // Before it is multiplied: 10^24 · 2^60 would not fit here either.
  if (whole >= static_cast<Wide>(std::numeric_limits<uint64_t>::max()) / scale + 1) return std::nullopt;
  Wide rest = number.digits % power;
  // Digits that are too small to matter go, so that rest · scale fits.
  while (power > static_cast<Wide>(10'000'000'000) * 10'000'000'000) {
    power /= 10;
    rest /= 10;
  }
  Wide value = whole * scale + (rest * scale + power / 2) / power;
  if (value > std::numeric_limits<uint64_t>::max()) return std::nullopt;
  return static_cast<uint64_t>(value);
}

std::string_view TrimFront(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  return text;
}

// Three digits at most, without zeros that say nothing: 1.5, 64, 999.
std::string ThreeDigits(double value) {
  double size = std::abs(value);
  int digits = size < 9.995 ? 2 : size < 99.95 ? 1 : 0;
  std::string text = Fixed(value, digits);
  if (digits > 0) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return text;
}

}  // namespace

Result<uint64_t> ParseSize(std::string_view text) {
  auto refuse = [&](std::string_view why) {
    return Status(Code::kInvalidArgument, Cat("\"", text, "\" is not a size: ", why, ". Write it like 500KB, 64MiB or 1.5GB"));
  };
  std::string_view rest = Trim(text);
  if (rest.empty()) return refuse("it is empty");
  if (rest.front() == '-') return refuse("it is negative");
  std::optional<Decimal> number = TakeDecimal(rest);
  if (!number) return refuse("it does not begin with a number of at most 24 digits");
  std::string_view name = TrimFront(rest);
  const Unit* unit = FindUnit(kSizeUnits, name);
  if (unit == nullptr) return refuse(Cat("there is no unit \"", name, "\" (B, KB, MB, GB, TB, PB, EB; KiB, MiB, …)"));
  if (unit->scale == 1 && number->places > 0) return refuse("bytes have no fractions");
  std::optional<uint64_t> bytes = Scale(*number, unit->scale);
  if (!bytes) return refuse("it is larger than 18.4EB");
  return *bytes;
}

std::string FormatSize(double bytes) {
  static constexpr std::array<std::string_view, 7> kUnits = {" B", "KB", "MB", "GB", "TB", "PB", "EB"};
  if (!std::isfinite(bytes)) return Cat(bytes, " B");
  size_t unit = 0;
  // 999.6 would be printed as 1000: it belongs to the next unit.
  while (std::abs(bytes) >= 999.5 && unit + 1 < kUnits.size()) {
    bytes /= 1000;
    ++unit;
  }
  return Cat(unit == 0 ? Fixed(bytes, 0) : ThreeDigits(bytes), kUnits[unit]);
}

Result<Duration> ParseDuration(std::string_view text) {
  auto refuse = [&](std::string_view why) {
    return Status(Code::kInvalidArgument,
                  Cat("\"", text, "\" is not a length of time: ", why, ". Write it like 200ms, 1.5s, 90s or 1h30m"));
  };
  std::string_view rest = Trim(text);
  if (rest.empty()) return refuse("it is empty");
  if (rest.front() == '-') return refuse("it is negative");
  constexpr auto kMost = static_cast<uint64_t>(Duration::max().count());
  uint64_t total = 0;
  uint64_t scale_before = std::numeric_limits<uint64_t>::max();
  while (!rest.empty()) {
    bool first = scale_before == std::numeric_limits<uint64_t>::max();
    std::optional<Decimal> number = TakeDecimal(rest);
    if (!number)
      return refuse(first ? "it does not begin with a number of at most 24 digits"
                          : Cat("a number is missing before \"", rest, "\""));
    rest = TrimFront(rest);
    size_t length = 0;
    while (length < rest.size() && !IsDigit(rest[length]) && rest[length] != '.' && rest[length] != ' ') ++length;
    std::string_view name = rest.substr(0, length);
    rest = TrimFront(rest.substr(length));
    const Unit* unit = FindUnit(kTimeUnits, name);
    if (unit == nullptr) return refuse(Cat("there is no unit \"", name, "\" (ns, us, ms, s, m, h, d)"));
    if (name.empty() && !(first && rest.empty())) return refuse("a unit is missing (ns, us, ms, s, m, h, d)");
    if (unit->scale >= scale_before) return refuse(Cat("its units do not get smaller (\"", name, "\")"));
    scale_before = unit->scale;
    std::optional<uint64_t> part = Scale(*number, unit->scale);
    if (!part || *part > kMost - total) return refuse("it is longer than 292 years");
    total += *part;
  }
  return Duration(static_cast<int64_t>(total));
}

std::string FormatDuration(Duration time) {
  double seconds = std::chrono::duration<double>(time).count();
  if (seconds < 0) return Cat("-", FormatDuration(time == Duration::min() ? Duration::max() : -time));
  if (time == Duration::zero()) return "0s";
  if (seconds < 0.9995e-6) return Cat(time.count(), "ns");
  if (seconds < 0.9995e-3) return Cat(ThreeDigits(seconds * 1e6), "us");
  if (seconds < 0.9995) return Cat(ThreeDigits(seconds * 1e3), "ms");
  if (seconds < 59.95) return Cat(ThreeDigits(seconds), "s");
  // From a minute on, two units say more than three digits do.
  struct Step {
    int64_t large, small;
    std::string_view large_name, small_name;
  };
  for (Step step : {Step{60, 1, "m", "s"}, Step{3600, 60, "h", "m"}, Step{86400, 3600, "d", "h"}}) {
    // Not rounded up beyond the longest time there is: what is printed can be read again.
    int64_t most = std::chrono::duration_cast<std::chrono::seconds>(Duration::max()).count() / step.small;
    int64_t count = std::min<int64_t>(std::llround(seconds / static_cast<double>(step.small)), most);
    int64_t per_large = step.large / step.small;
    if (step.large < 86400 && count >= (step.large == 60 ? 60 : 24) * per_large) continue;
    std::string out = Cat(count / per_large, step.large_name);
    if (count % per_large != 0) out += Cat(count % per_large, step.small_name);
    return out;
  }
  return {};
}

}  // namespace headrace
