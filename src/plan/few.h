// A list that is nearly always empty, and then takes one pointer. Plans hold hundreds of thousands of samples: what each of them takes is what planning costs.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

namespace headrace {

template <typename T>
class Few {
 public:
  Few() = default;
  Few(std::initializer_list<T> values) {
    if (values.size() > 0) list_ = std::make_unique<std::vector<T>>(values);
  }
  Few(Few&&) noexcept = default;
  Few& operator=(Few&&) noexcept = default;
  Few(const Few& other) : list_(other.list_ == nullptr ? nullptr : std::make_unique<std::vector<T>>(*other.list_)) {}
  Few& operator=(const Few& other) { return *this = Few(other); }
  ~Few() = default;

  void push_back(T value) {
    if (list_ == nullptr) list_ = std::make_unique<std::vector<T>>();
    list_->push_back(std::move(value));
  }
  bool empty() const { return list_ == nullptr; }
  size_t size() const { return list_ == nullptr ? 0 : list_->size(); }
  T& operator[](size_t i) { return (*list_)[i]; }
  const T& operator[](size_t i) const { return (*list_)[i]; }
  const T& front() const { return list_->front(); }
  T& back() { return list_->back(); }
  T* begin() { return list_ == nullptr ? nullptr : list_->data(); }
  T* end() { return begin() + size(); }
  const T* begin() const { return list_ == nullptr ? nullptr : list_->data(); }
  const T* end() const { return begin() + size(); }

 private:
  std::unique_ptr<std::vector<T>> list_;
};

}  // namespace headrace
