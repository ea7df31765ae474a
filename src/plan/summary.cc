#include "plan/summary.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace headrace {
namespace {

std::string Bar(double part, uint32_t width, bool ascii) {
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  part = std::clamp(part, 0.0, 1.0);
  const auto eighths = static_cast<uint32_t>(std::lround(part * width * 8));
  uint32_t cells = eighths / 8;
  std::string bar;
  if (ascii) {
    cells = (eighths + 4) / 8;
    bar.assign(cells, '#');
  } else {
    for (uint32_t i = 0; i < cells; ++i) bar += "█";
    if (eighths % 8 != 0) {
      bar += kEighths[eighths % 8];
      ++cells;
    }
  }
  return bar + std::string(width - std::min(width, cells), ' ');
}

std::string Format(const char* format, auto... values) {
  char text[160];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

// 1234567: 1.2M
std::string Short(uint64_t number) {
  static constexpr const char* kUnits[] = {"", "k", "M", "G", "T", "P"};
  auto value = static_cast<double>(number);
  size_t unit = 0;
  while (value >= 999.5 && unit < 5) {
    value /= 1000;
    ++unit;
  }
  return unit == 0 ? std::to_string(number) : Format(value < 9.95 ? "%.1f%s" : "%.0f%s", value, kUnits[unit]);
}

size_t Columns(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

void PlanSummary::Add(const StepPlan& plan) {
  const size_t sources = std::max(samples.size(), plan.samples.size());
  samples.resize(sources, 0);
  tokens.resize(sources, 0);
  for (size_t i = 0; i < plan.samples.size(); ++i) {
    samples[i] += plan.samples[i];
    tokens[i] += plan.tokens[i];
  }
  ++steps;
  label_tokens += plan.label_tokens;
  padding += plan.padding;
  truncated += plan.truncated;
  dropped += plan.dropped;
  for (const auto& lane : plan.lanes)
    for (const Sequence& sequence : lane)
      for (const Placed& piece : sequence.pieces) {
        const SampleInfo& sample = piece.sample;
        bytes +=
            sample.length == 0
                ? sample.bytes
                : static_cast<uint64_t>(static_cast<double>(sample.bytes) * piece.length / static_cast<double>(sample.length));
      }
  sum_before += plan.spread_before;
  sum_after += plan.spread_after;
  worst_before = std::max(worst_before, plan.spread_before);
  worst_after = std::max(worst_after, plan.spread_after);
}

double PlanSummary::Share(size_t source) const {
  const uint64_t all = std::accumulate(tokens.begin(), tokens.end(), uint64_t{0});
  const std::vector<uint64_t>& counts = all > 0 ? tokens : samples;
  const uint64_t sum = std::accumulate(counts.begin(), counts.end(), uint64_t{0});
  return sum == 0 || source >= counts.size() ? 0 : static_cast<double>(counts[source]) / static_cast<double>(sum);
}

double PlanSummary::PaddingShare() const {
  const uint64_t all = std::accumulate(tokens.begin(), tokens.end(), padding);
  return all == 0 ? 0 : static_cast<double>(padding) / static_cast<double>(all);
}

std::string Bars(const PlanSummary& summary, const std::vector<std::string>& sources,
                 const std::map<std::string, double>& weights, uint32_t width, bool ascii) {
  size_t widest = 7;
  for (const std::string& name : sources) widest = std::max(widest, Columns(name));
  const auto label = [&](const std::string& name) { return name + std::string(widest - Columns(name) + 2, ' '); };
  double sum = 0;
  for (const auto& [name, weight] : weights) sum += weight;
  std::string text;
  for (size_t i = 0; i < sources.size(); ++i) {
    const auto found = weights.find(sources[i]);
    const double weight = found == weights.end() || !(sum > 0) ? 0 : found->second / sum;
    const uint64_t samples = i < summary.samples.size() ? summary.samples[i] : 0,
                   tokens = i < summary.tokens.size() ? summary.tokens[i] : 0;
    text += label(sources[i]) + Bar(summary.Share(i), width, ascii) +
            Format(" %5.1f %%  weight %5.1f %%  ", 100 * summary.Share(i), 100 * weight) + Short(tokens) + " tokens, " +
            Short(samples) + " samples\n";
  }
  text += label("padding") + Bar(summary.PaddingShare(), width, ascii) + Format(" %5.2f %%\n", 100 * summary.PaddingShare());
  const double full = std::max(1.0, summary.MeanBefore());
  const char* what = "largest lane over the mean";
  text += label("before") + Bar(summary.MeanBefore() / full, width, ascii) +
          Format(" %6.3f  worst %.3f  %s, as they came\n", summary.MeanBefore(), summary.worst_before, what);
  text += label("after") + Bar(summary.MeanAfter() / full, width, ascii) +
          Format(" %6.3f  worst %.3f  %s, balanced\n", summary.MeanAfter(), summary.worst_after, what);
  return text;
}

}  // namespace headrace
