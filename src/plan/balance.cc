#include "plan/balance.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <map>
#include <numeric>
#include <queue>
#include <tuple>
#include <utility>

namespace headrace {
namespace {

// Costs are compared with this much tolerance: better than that no step needs to be.
constexpr double kEven = 1.0005;
// Groups of lanes that are worse than this are worth another try.
constexpr double kGoodGroups = 1.005;

struct Load {
  double cost = 0;
  std::vector<uint32_t> items;
};

double Largest(const std::vector<Load>& loads) {
  double largest = 0;
  for (const Load& load : loads) largest = std::max(largest, load.cost);
  return largest;
}

std::vector<Load> FromLanes(std::span<const double> costs, const Lanes& lanes) {
  std::vector<Load> loads(lanes.size());
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    loads[lane].items = lanes[lane];
    for (uint32_t item : lanes[lane]) loads[lane].cost += costs[item];
  }
  return loads;
}

bool Dearer(std::span<const double> costs, uint32_t a, uint32_t b) { return costs[a] != costs[b] ? costs[a] > costs[b] : a < b; }

// The items, the dearest first; those that cost the same in the order in which they came.
std::vector<uint32_t> DearestFirst(std::span<const double> costs) {
  std::vector<uint32_t> order(costs.size());
  std::iota(order.begin(), order.end(), 0);
  if (costs.size() < 256) {
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return Dearer(costs, a, b); });
    return order;
  }
  // By counting, 11 bits of the costs at a time. The bits of a number that is not negative ascend with it, those of a negative one descend.
  constexpr uint32_t kBits = 11, kBuckets = 1 << kBits;
  struct Key {
    uint64_t bits;
    uint32_t item;
  };
  std::vector<Key> keys(costs.size()), sorted(costs.size());
  uint64_t differ = 0;
  for (uint32_t item = 0; item < costs.size(); ++item) {
    const auto bits = std::bit_cast<uint64_t>(costs[item] + 0.0);  // and -0 is 0
    keys[item] = {bits >> 63 != 0 ? bits : ~(bits | uint64_t{1} << 63), item};
    differ |= keys[item].bits ^ keys[0].bits;
  }
  for (uint32_t shift = 0; shift < 64; shift += kBits) {
    if ((differ >> shift) % kBuckets == 0) continue;
    std::array<uint32_t, kBuckets> first{};
    for (const Key& key : keys) ++first[(key.bits >> shift) % kBuckets];
    uint32_t sum = 0;
    for (uint32_t& bucket : first) bucket = std::exchange(sum, sum + bucket);
    for (const Key& key : keys) sorted[first[(key.bits >> shift) % kBuckets]++] = key;
    keys.swap(sorted);
  }
  for (size_t i = 0; i < keys.size(); ++i) order[i] = keys[i].item;
  return order;
}

// What no arrangement can beat. `order`: the items, the dearest first.
double LowerBound(std::span<const double> costs, const std::vector<uint32_t>& order, uint32_t lanes, bool same_number) {
  double sum = 0;
  for (uint32_t item : order) sum += costs[item];
  double largest = order.empty() ? 0 : costs[order.front()];
  if (same_number)
    for (size_t i = 1; i < order.size() / lanes; ++i) largest += costs[order[order.size() - i]];
  return std::max(sum / lanes, largest);
}

// How many items each lane may have: the first ones get one more where they do not divide.
std::vector<uint32_t> Limits(size_t items, uint32_t lanes, bool same_number) {
  std::vector<uint32_t> limits(lanes, static_cast<uint32_t>(items));
  if (same_number)
    for (uint32_t lane = 0; lane < lanes; ++lane)
      limits[lane] = static_cast<uint32_t>(items / lanes + (lane < items % lanes ? 1 : 0));
  return limits;
}

// The dearest first, each to the lane that has least. Like `Differencing`, with the items of a lane in this order.
std::vector<Load> Greedy(std::span<const double> costs, const std::vector<uint32_t>& order, uint32_t lanes, bool same_number) {
  const std::vector<uint32_t> limits = Limits(order.size(), lanes, same_number);
  std::vector<Load> loads(lanes);
  using Entry = std::tuple<double, size_t, uint32_t>;  // cost, items, lane
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> least;
  for (uint32_t lane = 0; lane < lanes; ++lane)
    if (limits[lane] > 0) least.emplace(0, 0, lane);
  for (uint32_t item : order) {
    const uint32_t lane = std::get<2>(least.top());
    least.pop();
    loads[lane].cost += costs[item];
    loads[lane].items.push_back(item);
    if (loads[lane].items.size() < limits[lane]) least.emplace(loads[lane].cost, loads[lane].items.size(), lane);
  }
  return loads;
}

// `Differencing` between two lanes that may differ in number: the same, step by step, without a list for each partial solution. Dividing along the
// divisors of the lanes does it hundreds of times.
std::vector<Load> DifferencingOfTwo(std::span<const double> costs, const std::vector<uint32_t>& order) {
  constexpr uint32_t kNone = UINT32_MAX;
  struct Part {
    double cost = 0;
    uint32_t head = kNone, tail = kNone;
  };
  struct Partial {
    Part large, small;  // the latter without items at first
  };
  const auto count = static_cast<uint32_t>(order.size());
  std::vector<uint32_t> next(count, kNone);  // by place in `order`
  std::vector<Partial> partials(count);
  using Entry = std::pair<double, int64_t>;  // unevenness; ties: the one that came first
  std::vector<Entry> most;
  most.reserve(count + 1);
  for (uint32_t i = 0; i < count; ++i) {
    partials[i].large = {costs[order[i]], i, i};
    most.emplace_back(partials[i].large.cost, -static_cast<int64_t>(i));
  }
  const auto join = [&](Part& to, const Part& from) {
    if (to.head == kNone) {
      to = from;
      return;
    }
    to.cost += from.cost;
    next[to.tail] = from.head;
    to.tail = from.tail;
  };
  std::make_heap(most.begin(), most.end());
  while (most.size() > 1) {
    const auto a = static_cast<size_t>(-most.front().second);
    std::pop_heap(most.begin(), most.end());
    most.pop_back();
    const auto b = static_cast<size_t>(-most.front().second);
    Partial &one = partials[a], &other = partials[b];
    if (one.small.head == kNone && other.small.head != kNone) std::swap(one, other);
    join(one.small, other.large);
    if (other.small.head != kNone) join(one.large, other.small);
    if (one.small.cost > one.large.cost) std::swap(one.large, one.small);
    std::pop_heap(most.begin(), most.end());
    most.back() = {one.large.cost - one.small.cost, -static_cast<int64_t>(a)};
    std::push_heap(most.begin(), most.end());
  }
  std::vector<Load> loads(2);
  if (most.empty()) return loads;
  const Partial& last = partials[static_cast<size_t>(-most.front().second)];
  std::vector<bool> small(count, false);
  for (uint32_t i = last.small.head; i != kNone; i = next[i]) small[i] = true;
  for (uint32_t i = 0; i < count; ++i) loads[small[i] ? 1 : 0].items.push_back(order[i]);
  loads[0].cost = last.large.cost;
  loads[1].cost = last.small.cost;
  return loads;
}

// Largest differencing: the two most uneven partial solutions are joined, the largest load of one with the smallest of the other, until one is left. With
// the same number in every lane, a partial solution begins as `lanes` items that are neighbours in the order of cost.
std::vector<Load> Differencing(std::span<const double> costs, const std::vector<uint32_t>& order, uint32_t lanes,
                               bool same_number) {
  if (lanes == 2 && !same_number) return DifferencingOfTwo(costs, order);
  constexpr uint32_t kNone = UINT32_MAX;
  struct Part {
    double cost = 0;
    uint32_t head = kNone, tail = kNone;
  };
  std::vector<uint32_t> next(order.size(),
                             kNone);  // by place in `order`: items of a load as a list, so that joining costs nothing
  std::vector<std::vector<Part>> partials;  // each in descending order of cost; without `same_number` zeros are left out
  const size_t begin_with = same_number ? lanes : 1;
  for (size_t i = 0; i < order.size(); i += begin_with) {
    std::vector<Part> partial;
    for (size_t j = i; j < std::min(order.size(), i + begin_with); ++j) {
      const auto place = static_cast<uint32_t>(j);
      partial.push_back({costs[order[j]], place, place});
    }
    partials.push_back(std::move(partial));
  }
  const auto unevenness = [&](const std::vector<Part>& partial) {
    return partial.front().cost - (partial.size() < lanes ? 0 : partial.back().cost);
  };
  using Entry = std::pair<double, int64_t>;  // ties: the one that came first
  std::priority_queue<Entry> most;
  for (size_t i = 0; i < partials.size(); ++i) most.emplace(unevenness(partials[i]), -static_cast<int64_t>(i));
  while (most.size() > 1) {
    const auto a = static_cast<size_t>(-most.top().second);
    most.pop();
    const auto b = static_cast<size_t>(-most.top().second);
    most.pop();
    std::vector<Part>&one = partials[a], &other = partials[b];
    if (one.size() < other.size()) one.swap(other);
    // Slots that are left out are loads of 0, which stand after the last.
    const size_t filled = one.size();
    for (size_t i = 0; i < other.size(); ++i) {
      const size_t slot = lanes - 1 - i;  // the other's largest to this one's smallest
      if (slot >= filled) {
        one.push_back(other[i]);
        continue;
      }
      one[slot].cost += other[i].cost;
      next[one[slot].tail] = other[i].head;
      one[slot].tail = other[i].tail;
    }
    std::vector<Part>().swap(other);
    std::stable_sort(one.begin(), one.end(), [](const Part& x, const Part& y) { return x.cost > y.cost; });
    most.emplace(unevenness(one), -static_cast<int64_t>(a));
  }
  std::vector<Load> loads(lanes);
  if (!most.empty()) {
    const std::vector<Part>& last = partials[static_cast<size_t>(-most.top().second)];
    std::vector<uint32_t> lane_of(order.size(), 0);
    for (uint32_t lane = 0; lane < last.size(); ++lane) {
      loads[lane].cost = last[lane].cost;
      for (uint32_t place = last[lane].head; place != kNone; place = next[place]) lane_of[place] = lane;
    }
    for (size_t place = 0; place < order.size(); ++place) loads[lane_of[place]].items.push_back(order[place]);
  }
  return loads;
}

// Takes from the largest lane what another can do better: by an exchange of two items or, where numbers may differ, by giving one away. The items of
// each lane are in order, the dearest first, and stay so.
void Improve(std::span<const double> costs, bool same_number, double bound, std::vector<Load>& loads) {
  if (loads.size() < 2) return;
  const auto dearer = [&](uint32_t a, uint32_t b) { return Dearer(costs, a, b); };
  if (Largest(loads) <= bound * kEven) return;
  std::vector<uint32_t> by_cost(loads.size());
  std::iota(by_cost.begin(), by_cost.end(), 0);
  const auto less = [&](uint32_t a, uint32_t b) {
    return loads[a].cost != loads[b].cost ? loads[a].cost < loads[b].cost : a < b;
  };
  std::sort(by_cost.begin(), by_cost.end(), less);
  // A lane whose cost changed goes to where it belongs among the others.
  const auto move = [&](size_t place) {
    const uint32_t lane = by_cost[place];
    by_cost.erase(by_cost.begin() + static_cast<ptrdiff_t>(place));
    by_cost.insert(std::lower_bound(by_cost.begin(), by_cost.end(), lane, less), lane);
  };
  for (size_t round = 0; round < 4 * loads.size() + 64; ++round) {
    Load& from = loads[by_cost.back()];
    if (from.cost <= bound * kEven) return;
    bool better = false;
    for (size_t tried = 0; tried + 1 < loads.size() && tried < 16 && !better; ++tried) {
      Load& to = loads[by_cost[tried]];
      const double gap = from.cost - to.cost;
      if (!(gap > 0)) break;
      // The best is a difference of half the gap.
      double best = 0;
      size_t give = from.items.size(), take = to.items.size();
      const auto consider = [&](size_t g, size_t t, double difference) {
        const double gain = std::min(difference, gap - difference);
        if (gain > best) {
          best = gain;
          give = g;
          take = t;
        }
      };
      size_t t = 0;
      for (size_t g = 0; g < from.items.size(); ++g) {
        const double cost = costs[from.items[g]];
        if (!same_number) consider(g, to.items.size(), cost);
        // Both are in descending order: the wanted partner only moves on.
        while (t < to.items.size() && cost - costs[to.items[t]] < gap / 2) ++t;
        if (t < to.items.size()) consider(g, t, cost - costs[to.items[t]]);
        if (t > 0) consider(g, t - 1, cost - costs[to.items[t - 1]]);
      }
      if (best <= gap * 1e-9) continue;
      const uint32_t given = from.items[give];
      from.items.erase(from.items.begin() + static_cast<ptrdiff_t>(give));
      from.cost -= costs[given];
      to.cost += costs[given];
      if (take < to.items.size()) {
        const uint32_t taken = to.items[take];
        to.items.erase(to.items.begin() + static_cast<ptrdiff_t>(take));
        to.cost -= costs[taken];
        from.cost += costs[taken];
        from.items.insert(std::lower_bound(from.items.begin(), from.items.end(), taken, dearer), taken);
      }
      to.items.insert(std::lower_bound(to.items.begin(), to.items.end(), given, dearer), given);
      // Both have changed: while one is put in its place, the other must not stand among the others.
      const uint32_t giver = by_cost.back();
      by_cost.pop_back();
      move(tried);
      by_cost.insert(std::lower_bound(by_cost.begin(), by_cost.end(), giver, less), giver);
      better = true;
    }
    if (!better) return;
  }
}

// A few items: look at all arrangements that can still be better, as long as they are not too many.
class Search {
 public:
  Search(std::span<const double> costs, const std::vector<uint32_t>& order, uint32_t lanes, bool same_number, double bound)
      : costs_(costs),
        order_(order),
        limits_(Limits(order.size(), lanes, same_number)),
        bound_(bound * kEven),
        cost_(lanes, 0),
        count_(lanes, 0),
        place_(order.size(), 0) {}

  void Run(std::vector<Load>& loads) {
    best_ = Largest(loads);
    Go(0, 0);
    if (found_.empty()) return;
    for (Load& load : loads) load = {};
    for (size_t i = 0; i < order_.size(); ++i) {
      loads[found_[i]].items.push_back(order_[i]);
      loads[found_[i]].cost += costs_[order_[i]];
    }
  }

 private:
  void Go(size_t depth, double largest) {
    if (--steps_ < 0 || best_ <= bound_) return;
    if (depth == order_.size()) {
      best_ = largest;
      found_ = place_;
      return;
    }
    const double cost = costs_[order_[depth]];
    for (size_t lane = 0; lane < cost_.size(); ++lane) {
      if (count_[lane] >= limits_[lane] || cost_[lane] + cost >= best_) continue;
      bool seen = false;  // a lane like an earlier one
      for (size_t other = 0; other < lane && !seen; ++other)
        seen = cost_[other] == cost_[lane] && limits_[other] - count_[other] == limits_[lane] - count_[lane];
      if (seen) continue;
      const double before = cost_[lane];
      cost_[lane] += cost;
      ++count_[lane];
      place_[depth] = static_cast<uint32_t>(lane);
      Go(depth + 1, std::max(largest, cost_[lane]));
      cost_[lane] = before;
      --count_[lane];
    }
  }

  std::span<const double> costs_;
  const std::vector<uint32_t>& order_;
  const std::vector<uint32_t> limits_;
  const double bound_;
  double best_ = 0;
  int64_t steps_ = 20'000;
  std::vector<double> cost_;
  std::vector<uint32_t> count_;
  std::vector<uint32_t> place_, found_;
};

// Sets of items that must share a lane go first, the largest sets before all others; then each item to the lane that has least and room.
std::vector<Load> Bonded(std::span<const double> costs, uint32_t lanes, const BalanceOptions& options) {
  std::map<uint32_t, std::vector<uint32_t>> sets;
  std::vector<std::vector<uint32_t>> units;
  for (uint32_t item = 0; item < costs.size(); ++item)
    if (options.bonds[item] != 0)
      sets[options.bonds[item]].push_back(item);
    else
      units.push_back({item});
  for (auto& [bond, items] : sets) units.push_back(std::move(items));
  const auto cost_of = [&](const std::vector<uint32_t>& unit) {
    double cost = 0;
    for (uint32_t item : unit) cost += costs[item];
    return cost;
  };
  std::stable_sort(units.begin(), units.end(), [&](const auto& a, const auto& b) {
    if (options.same_number && a.size() != b.size()) return a.size() > b.size();
    return cost_of(a) > cost_of(b);
  });
  const std::vector<uint32_t> limits = Limits(costs.size(), lanes, options.same_number);
  std::vector<Load> loads(lanes);
  for (const std::vector<uint32_t>& unit : units) {
    size_t best = lanes;
    for (size_t lane = 0; lane < lanes; ++lane)
      if (loads[lane].items.size() + unit.size() <= limits[lane] && (best == lanes || loads[lane].cost < loads[best].cost))
        best = lane;
    if (best == lanes) return {};
    loads[best].cost += cost_of(unit);
    loads[best].items.insert(loads[best].items.end(), unit.begin(), unit.end());
  }
  return loads;
}

// `order`: the items, the dearest first; so are those of each lane.
std::vector<Load> Divide(std::span<const double> costs, const std::vector<uint32_t>& order, uint32_t lanes, bool same_number,
                         BalanceMethod method) {
  // Differencing takes time of items × lanes where lanes may differ in number; and of many items the order of cost alone makes even lanes.
  const bool differencing =
      method == BalanceMethod::kKarmarkarKarp && (same_number ? order.size() % lanes == 0 : order.size() * lanes <= 1 << 14);
  std::vector<Load> loads =
      differencing ? Differencing(costs, order, lanes, same_number) : Greedy(costs, order, lanes, same_number);
  const double bound = LowerBound(costs, order, lanes, same_number);
  Improve(costs, same_number, bound, loads);
  if (order.size() <= 16 && lanes > 1) Search(costs, order, lanes, same_number, bound).Run(loads);
  return loads;
}

// First between halves of the lanes, then inside each half, and so on: so a group of lanes makes up for one of them that a single item overfills.
void DivideNested(std::span<const double> costs, std::vector<uint32_t> order, uint32_t lanes, bool same_number,
                  std::vector<Load>& result) {
  if (lanes == 1) {
    result.emplace_back();
    for (uint32_t item : order) result.back().cost += costs[item];
    result.back().items = std::move(order);
    return;
  }
  uint32_t factor = 2;
  while (lanes % factor != 0) ++factor;
  const BalanceMethod method = order.size() <= 512 ? BalanceMethod::kKarmarkarKarp : BalanceMethod::kGreedy;
  for (Load& load : Divide(costs, order, factor, same_number, method))
    DivideNested(costs, std::move(load.items), lanes / factor, same_number, result);
}

// Pairs the dearest with the cheapest, then pairs of pairs, and so on along the divisors.
std::vector<uint32_t> Nested(const std::vector<double>& costs) {
  struct Group {
    double cost;
    std::vector<uint32_t> lanes;
  };
  std::vector<Group> groups;
  for (uint32_t lane = 0; lane < costs.size(); ++lane) groups.push_back({costs[lane], {lane}});
  while (groups.size() > 1) {
    size_t factor = 2;
    while (groups.size() % factor != 0) ++factor;
    std::stable_sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) { return a.cost > b.cost; });
    // Dealt out there and back, and the last ones to those that have least.
    const size_t count = groups.size() / factor;
    std::vector<Group> joined(groups.begin(), groups.begin() + static_cast<ptrdiff_t>(count));
    for (size_t row = 1; row < factor; ++row) {
      std::stable_sort(joined.begin(), joined.end(), [](const Group& a, const Group& b) { return a.cost < b.cost; });
      for (size_t i = 0; i < count; ++i) {
        const Group& next = groups[row * count + i];
        joined[i].cost += next.cost;
        joined[i].lanes.insert(joined[i].lanes.end(), next.lanes.begin(), next.lanes.end());
      }
    }
    groups = std::move(joined);
  }
  return groups.empty() ? std::vector<uint32_t>() : groups.front().lanes;
}

// So that the sum of the first n lanes is near n times the mean, for every n.
std::vector<uint32_t> Level(const std::vector<double>& costs) {
  std::vector<uint32_t> by_cost(costs.size()), order;
  std::iota(by_cost.begin(), by_cost.end(), 0);
  std::stable_sort(by_cost.begin(), by_cost.end(), [&](uint32_t a, uint32_t b) { return costs[a] > costs[b]; });
  const double mean = std::accumulate(costs.begin(), costs.end(), 0.0) / static_cast<double>(costs.size());
  size_t low = 0, high = by_cost.size();
  double ahead = 0;
  while (low < high) {
    const uint32_t next = ahead > 0 ? by_cost[--high] : by_cost[low++];
    ahead += costs[next] - mean;
    order.push_back(next);
  }
  return order;
}

// How far groups of neighbouring lanes are from what can be, in the worst of all sizes that divide the lanes: 1 is even, or no larger than the dearest item.
double WorstGroups(const std::vector<Load>& loads, const std::vector<uint32_t>& order, double dearest) {
  double mean = 0;
  for (const Load& load : loads) mean += load.cost / static_cast<double>(loads.size());
  double worst = 1;
  for (size_t size = 1; size < loads.size(); ++size) {
    if (loads.size() % size != 0) continue;
    const double bound = std::max(mean * static_cast<double>(size), dearest);
    for (size_t first = 0; first < loads.size(); first += size) {
      double sum = 0;
      for (size_t i = first; i < first + size; ++i) sum += loads[order[i]].cost;
      if (sum > worst * bound) worst = sum / bound;
    }
  }
  return worst;
}

}  // namespace

Lanes InOrder(size_t items, uint32_t lanes) {
  Lanes result(lanes);
  const std::vector<uint32_t> limits = Limits(items, lanes, true);
  uint32_t next = 0;
  for (uint32_t lane = 0; lane < lanes; ++lane)
    for (uint32_t i = 0; i < limits[lane]; ++i) result[lane].push_back(next++);
  return result;
}

double Spread(std::span<const double> costs, const Lanes& lanes, uint32_t group) {
  double sum = 0, largest = 0;
  size_t groups = 0;
  for (size_t first = 0; first < lanes.size(); first += group, ++groups) {
    double here = 0;
    for (size_t lane = first; lane < std::min<size_t>(lanes.size(), first + group); ++lane)
      for (uint32_t item : lanes[lane]) here += costs[item];
    sum += here;
    largest = std::max(largest, here);
  }
  return sum > 0 ? largest / (sum / static_cast<double>(groups)) : 1;
}

Lanes Balance(std::span<const double> costs, uint32_t lanes, const BalanceOptions& options) {
  const bool bonded = std::any_of(options.bonds.begin(), options.bonds.end(), [](uint32_t bond) { return bond != 0; });
  const Lanes arrival = InOrder(costs.size(), lanes);
  if (lanes == 0 || (options.method == BalanceMethod::kNone && !bonded)) return arrival;

  const std::vector<uint32_t> order = DearestFirst(costs);
  const double bound = LowerBound(costs, order, lanes, options.same_number);

  double as_it_came = 0;
  const double dearest = order.empty() ? 0 : costs[order.front()];
  std::vector<Load> loads;
  if (bonded) {
    loads = Bonded(costs, lanes, options);
    if (loads.empty()) return arrival;  // a set is larger than a lane: the caller's mistake
  } else {
    loads = Divide(costs, order, lanes, options.same_number, options.method);
    std::vector<Load> before = FromLanes(costs, arrival);
    as_it_came = Largest(before);
    if (as_it_came < Largest(loads)) loads = std::move(before);
  }

  std::vector<double> of_lanes;
  for (const Load& load : loads) of_lanes.push_back(load.cost);
  std::vector<uint32_t> places = Nested(of_lanes);
  double worst = WorstGroups(loads, places, dearest);
  if (std::vector<uint32_t> level = Level(of_lanes); worst > kEven)
    if (const double other = WorstGroups(loads, level, dearest); other < worst) {
      places.swap(level);
      worst = other;
    }
  if (worst > kGoodGroups && !bonded && (!options.same_number || costs.size() % lanes == 0)) {
    std::vector<Load> nested;
    DivideNested(costs, order, lanes, options.same_number, nested);
    std::vector<uint32_t> as_they_are(lanes);
    std::iota(as_they_are.begin(), as_they_are.end(), 0);
    if (Largest(nested) <= std::max(std::min(bound * kGoodGroups, as_it_came), Largest(loads)) &&
        WorstGroups(nested, as_they_are, dearest) < worst) {
      loads = std::move(nested);
      places = std::move(as_they_are);
    }
  }

  Lanes result(lanes);
  for (size_t place = 0; place < lanes; ++place) {
    result[place] = std::move(loads[places[place]].items);
    const auto dearer = [&](uint32_t a, uint32_t b) { return Dearer(costs, a, b); };
    if (!std::is_sorted(result[place].begin(), result[place].end(), dearer))
      std::sort(result[place].begin(), result[place].end(), dearer);
  }
  return result;
}

}  // namespace headrace
