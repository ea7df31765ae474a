#include "load/depth.h"

#include <algorithm>
#include <cmath>

namespace headrace {
namespace {

constexpr double kWeight = 0.125;
constexpr size_t kPatience = 32;

double Seconds(Duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

void Depth::Spread::Add(double value) {
  if (!any) {
    mean = value;
    deviation = value / 2;
    any = true;
    return;
  }
  deviation += kWeight * (std::abs(value - mean) - deviation);
  mean += kWeight * (value - mean);
}

void Depth::Read(Duration took) { latency_.Add(Seconds(took)); }

void Depth::Taken(Duration interval) {
  interval_.Add(Seconds(interval));
  if (++taken_ < kPatience || !latency_.any) return;
  taken_ = 0;
  double quick = std::max(1e-6, interval_.mean - interval_.deviation);
  double slow = latency_.mean + 4 * latency_.deviation;
  auto needed = static_cast<size_t>(std::min<double>(kMost, std::ceil(slow / quick) + 2));
  blocks_ = std::clamp(needed, std::max(kLeast, blocks_ - std::max<size_t>(1, blocks_ / 8)), std::max(kLeast, blocks_ * 2));
  blocks_ = std::min(blocks_, kMost);
}

void Depth::Waited() {
  blocks_ = std::min(kMost, blocks_ * 2);
  taken_ = 0;
}

}  // namespace headrace
