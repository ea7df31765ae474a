#include "base/metrics.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/text.h"

namespace headrace {
namespace {

// Names come from code, not from users: a wrong one is a defect, found the first time that the line runs.
[[noreturn]] void Defect(std::string_view name, std::string_view why) {
  std::fputs(Cat("metric ", name, ": ", why, "\n").c_str(), stderr);
  std::abort();
}

bool IsName(std::string_view name, bool colon) {
  if (name.empty() || (name.front() >= '0' && name.front() <= '9')) return false;
  return std::ranges::all_of(name, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || (colon && c == ':');
  });
}

std::string Escape(std::string_view text, bool quotes) {
  std::string out;
  for (char c : text) {
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '"' && quotes) {
      out += "\\\"";
    } else {
      out += c;
    }
  }
  return out;
}

// a="1",b="2": sorted, so that the order in which a caller lists them does not make another metric.
std::string LabelText(const std::string& metric, Labels labels) {
  std::ranges::sort(labels);
  std::string out;
  for (const auto& [name, value] : labels) {
    if (!IsName(name, false) || name.starts_with("__") || name == "le") Defect(metric, Cat("\"", name, "\" cannot name a label"));
    out += Cat(out.empty() ? "" : ",", name, "=\"", Escape(value, true), "\"");
  }
  return out;
}

std::string InBraces(const std::string& labels) { return labels.empty() ? "" : Cat("{", labels, "}"); }

std::string Value(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  constexpr double kExact = 9007199254740992.0;
  if (value == std::trunc(value) && std::abs(value) <= kExact) return Cat(static_cast<int64_t>(value));
  std::array<char, 32> text;
  auto [end, _] = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general);
  return std::string(text.data(), end);
}

void AppendHistogram(std::string& out, const std::string& name, const std::string& labels, const Histogram& histogram) {
  std::string before_le = labels.empty() ? "" : Cat(labels, ",");
  std::vector<uint64_t> buckets = histogram.buckets();
  uint64_t below = 0;
  for (size_t i = 0; i < buckets.size(); ++i) {
    below += buckets[i];
    std::string bound = i < histogram.bounds().size() ? Value(histogram.bounds()[i]) : "+Inf";
    out += Cat(name, "_bucket{", before_le, "le=\"", bound, "\"} ", below, "\n");
  }
  out += Cat(name, "_sum", InBraces(labels), " ", Value(histogram.sum()), "\n");
  // From the same reading of the buckets, so that it agrees with +Inf while others observe.
  out += Cat(name, "_count", InBraces(labels), " ", below, "\n");
}

}  // namespace

Histogram::Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)) {
  std::erase_if(bounds_, [](double bound) { return !std::isfinite(bound); });
  std::ranges::sort(bounds_);
  bounds_.erase(std::unique(bounds_.begin(), bounds_.end()), bounds_.end());
  buckets_ = std::make_unique<std::atomic<uint64_t>[]>(bounds_.size() + 1);
}

void Histogram::Observe(double value) {
  if (std::isnan(value)) return;  // would turn the sum into NaN for ever
  auto bucket = std::ranges::lower_bound(bounds_, value) - bounds_.begin();
  buckets_[static_cast<size_t>(bucket)].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

uint64_t Histogram::count() const {
  uint64_t total = 0;
  for (uint64_t bucket : buckets()) total += bucket;
  return total;
}

double Histogram::Quantile(double share) const {
  std::vector<uint64_t> counts = buckets();
  uint64_t total = 0;
  for (uint64_t count : counts) total += count;
  if (total == 0 || bounds_.empty()) return 0;
  double rank = std::clamp(share, 0.0, 1.0) * static_cast<double>(total);
  double below = 0;
  for (size_t i = 0; i < bounds_.size(); ++i) {
    auto here = static_cast<double>(counts[i]);
    if (here > 0 && below + here >= rank) {
      double low = i > 0 ? bounds_[i - 1] : std::min(0.0, bounds_[0]);
      return low + (bounds_[i] - low) * (rank - below) / here;
    }
    below += here;
  }
  return bounds_.back();  // somewhere above; nobody knows how far
}

std::vector<uint64_t> Histogram::buckets() const {
  std::vector<uint64_t> counts(bounds_.size() + 1);
  for (size_t i = 0; i < counts.size(); ++i) counts[i] = buckets_[i].load(std::memory_order_relaxed);
  return counts;
}

std::vector<double> DurationBounds() {
  std::vector<double> bounds;
  for (int power = 0; power <= 18; ++power) bounds.push_back(std::ldexp(0.0005, power));
  return bounds;
}

Metrics::Family& Metrics::GetFamily(const std::string& name, const std::string& help, Family::Kind kind) {
  if (!IsName(name, true)) Defect(name, "this is not a metric's name: letters, digits, _ and : only");
  auto [found, is_new] = families_.try_emplace(name);
  if (is_new) {
    found->second.kind = kind;
    found->second.help = help;
  } else if (found->second.kind != kind) {
    Defect(name, "asked for as two kinds of metric");
  }
  return found->second;
}

Counter& Metrics::GetCounter(const std::string& name, const std::string& help, const Labels& labels) {
  std::string key = LabelText(name, labels);
  std::lock_guard lock(mutex_);
  std::unique_ptr<Counter>& counter = GetFamily(name, help, Family::kCounter).counters[key];
  if (!counter) counter = std::make_unique<Counter>();
  return *counter;
}

Gauge& Metrics::GetGauge(const std::string& name, const std::string& help, const Labels& labels) {
  std::string key = LabelText(name, labels);
  std::lock_guard lock(mutex_);
  std::unique_ptr<Gauge>& gauge = GetFamily(name, help, Family::kGauge).gauges[key];
  if (!gauge) gauge = std::make_unique<Gauge>();
  return *gauge;
}

Histogram& Metrics::GetHistogram(const std::string& name, const std::string& help, const Labels& labels,
                                 const std::vector<double>& bounds) {
  std::string key = LabelText(name, labels);
  std::lock_guard lock(mutex_);
  std::unique_ptr<Histogram>& histogram = GetFamily(name, help, Family::kHistogram).histograms[key];
  if (!histogram) histogram = std::make_unique<Histogram>(bounds);
  return *histogram;
}

std::string Metrics::ToPrometheus() const {
  static constexpr std::array<std::string_view, 3> kKindNames = {"counter", "gauge", "histogram"};
  std::string out;
  std::lock_guard lock(mutex_);
  for (const auto& [name, family] : families_) {
    out += Cat("# HELP ", name, " ", Escape(family.help, false), "\n# TYPE ", name, " ", kKindNames[family.kind], "\n");
    for (const auto& [labels, counter] : family.counters) out += Cat(name, InBraces(labels), " ", Value(counter->value()), "\n");
    for (const auto& [labels, gauge] : family.gauges) out += Cat(name, InBraces(labels), " ", Value(gauge->value()), "\n");
    for (const auto& [labels, histogram] : family.histograms) AppendHistogram(out, name, labels, *histogram);
  }
  return out;
}

Metrics& Metrics::Default() {
  static auto& metrics = *new Metrics;  // never destroyed: others may count while the process ends
  return metrics;
}

}  // namespace headrace
