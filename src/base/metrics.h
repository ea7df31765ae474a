// Counters, gauges and histograms, and their Prometheus text form.
//
//   Counter& requests = metrics.GetCounter("headrace_store_requests_total", "Requests to a store.", {{"op", "get"}, {"outcome", "ok"}});
//   requests.Add(1);
//
// Asking for a metric takes a lock; keep the reference, which lives as long as the registry. Adding to one is an atomic
// instruction. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace headrace {

using Labels = std::vector<std::pair<std::string, std::string>>;

class Counter {
 public:
  void Add(double amount) { value_.fetch_add(amount, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_ = 0;
};

class Gauge {
 public:
  void Set(double value) { value_.store(value, std::memory_order_relaxed); }
  void Add(double amount) { value_.fetch_add(amount, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_ = 0;
};

class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds);
  void Observe(double value);
  uint64_t count() const;
  double sum() const { return sum_.load(std::memory_order_relaxed); }
  // The value below which `share` of the observations lie, interpolated inside its bucket; 0 if there are none.
  double Quantile(double share) const;
  const std::vector<double>& bounds() const { return bounds_; }
  std::vector<uint64_t> buckets() const;  // one per bound and one for what lies above, not cumulated

 private:
  std::vector<double> bounds_;
  std::unique_ptr<std::atomic<uint64_t>[]> buckets_;
  std::atomic<double> sum_ = 0;
};

// From 0.5 ms to about 2 minutes, for the duration of requests.
std::vector<double> DurationBounds();

class Metrics {
 public:
  Metrics() = default;
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  Counter& GetCounter(const std::string& name, const std::string& help, const Labels& labels = {});
  Gauge& GetGauge(const std::string& name, const std::string& help, const Labels& labels = {});
  Histogram& GetHistogram(const std::string& name, const std::string& help, const Labels& labels = {},
                          const std::vector<double>& bounds = DurationBounds());

  // The text exposition format, families and labels in order.
  std::string ToPrometheus() const;

  // The process's own registry.
  static Metrics& Default();

 private:
  struct Family {
    enum Kind { kCounter, kGauge, kHistogram } kind;
    std::string help;
    std::map<std::string, std::unique_ptr<Counter>> counters;
    std::map<std::string, std::unique_ptr<Gauge>> gauges;
    std::map<std::string, std::unique_ptr<Histogram>> histograms;
  };
  Family& GetFamily(const std::string& name, const std::string& help, Family::Kind kind);

  mutable std::mutex mutex_;
  std::map<std::string, Family> families_;
};

}  // namespace headrace
