// A step: its arrays lane by lane as views, joined over lanes, and what follows from them.
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "arrays.h"
#include "base/text.h"
#include "bind.h"
#include "raise.h"
#include "step_view.h"

namespace headrace::python {
namespace {

struct Lanes {
  size_t first;
  size_t end;
};

Lanes CheckLanes(const StepView& view, size_t first, size_t end) {
  if (first >= end || end > view.step.lanes().count()) throw nb::index_error("no such lane");
  return {first, end};
}

const Array& ArrayAt(const StepView& view, size_t lane, size_t index) {
  std::span<const Array> cell = view.step.cell(lane);
  if (index >= cell.size()) throw nb::index_error("no such array");
  return cell[index];
}

const PackedColumns& Packed(const StepView& view) {
  if (!*view.packed) Raise(Status(Code::kInvalidArgument, "the stream is not packed"));
  return **view.packed;
}

View Column(const StepView& view, size_t index, size_t first, size_t end) {
  Lanes lanes = CheckLanes(view, first, end);
  const Array& one = ArrayAt(view, lanes.first, index);
  if (lanes.end - lanes.first == 1) return ViewOf(one);
  std::vector<uint64_t> shape = one.shape.empty() ? std::vector<uint64_t>{1} : one.shape;
  size_t bytes = one.bytes.size();
  for (size_t lane = lanes.first + 1; lane < lanes.end; ++lane) {
    const Array& next = ArrayAt(view, lane, index);
    std::vector<uint64_t> extents = next.shape.empty() ? std::vector<uint64_t>{1} : next.shape;
    if (extents.size() != shape.size() || !std::equal(extents.begin() + 1, extents.end(), shape.begin() + 1)) {
      Raise(Status(Code::kInvalidArgument, Cat("the lanes of step ", view.step.number(),
                                               " have arrays of different shapes here, which do not fit into one: "
                                               "take them lane by lane (step.lanes())")));
    }
    shape[0] += extents[0];
    bytes += next.bytes.size();
  }
  if (const std::shared_ptr<Habit>& habit = view.step.block().habit) habit->AskedForWhole();
  // One behind another as a rule: then there is nothing to copy.
  std::optional<Bytes> together = one.bytes;
  for (size_t lane = lanes.first + 1; lane < lanes.end && together; ++lane)
    together = together->JoinedWith(view.step.cell(lane)[index].bytes);
  if (together) return ViewOf(*std::move(together), one.dtype, shape);
  Buffer joined = view.pool->Take(bytes);
  {
    nb::gil_scoped_release released;
    std::byte* to = joined.span().data();
    for (size_t lane = lanes.first; lane < lanes.end; ++lane) {
      const Bytes& from = view.step.cell(lane)[index].bytes;
      if (from.empty()) continue;
      std::memcpy(to, from.data(), from.size());
      to += from.size();
    }
  }
  return ViewOf(std::move(joined).Freeze(), one.dtype, shape);
}

// An int32 for every token of the lanes.
template <typename Write>
View PerToken(const StepView& view, size_t first, size_t end, Write write) {
  Lanes lanes = CheckLanes(view, first, end);
  const PackedColumns& packed = Packed(view);
  std::vector<uint64_t> shape = ArrayAt(view, lanes.first, packed.tokens).shape;
  size_t tokens = ArrayAt(view, lanes.first, packed.tokens).elements();
  for (size_t lane = lanes.first + 1; lane < lanes.end; ++lane) {
    const Array& next = ArrayAt(view, lane, packed.tokens);
    if (next.shape[1] != shape[1])
      Raise(
          Status(Code::kInvalidArgument, "the lanes have sequences of different lengths: take them lane by lane (step.lanes())"));
    shape[0] += next.shape[0];
    tokens += next.elements();
  }
  Buffer out = view.pool->Take(tokens * sizeof(int32_t));
  {
    nb::gil_scoped_release released;
    auto* to = reinterpret_cast<int32_t*>(out.span().data());
    for (size_t lane = lanes.first; lane < lanes.end; ++lane) {
      std::span<const Array> cell = view.step.cell(lane);
      size_t count = cell[packed.tokens].elements();
      write(cell, packed, std::span<int32_t>(to, count));
      to += count;
    }
  }
  return ViewOf(std::move(out).Freeze(), Dtype::kI32, shape);
}

View Labels(const StepView& view, size_t first, size_t end, bool shifted) {
  LabelStyle style = shifted ? LabelStyle::kShifted : LabelStyle::kUnshifted;
  return PerToken(view, first, end, [style](std::span<const Array> cell, const PackedColumns& packed, std::span<int32_t> out) {
    WriteLabels(cell, packed, style, out);
  });
}

View Positions(const StepView& view, size_t first, size_t end) { return PerToken(view, first, end, WritePositions); }

View Bounds(const StepView& view, size_t first, size_t end) {
  Lanes lanes = CheckLanes(view, first, end);
  const PackedColumns& packed = Packed(view);
  if (lanes.end - lanes.first == 1) return ViewOf(ArrayAt(view, lanes.first, packed.cu_seqlens));
  std::vector<int32_t> all{0};
  for (size_t lane = lanes.first; lane < lanes.end; ++lane) {
    const Array& bounds = ArrayAt(view, lane, packed.cu_seqlens);
    const int32_t base = all.back();
    const auto* from = reinterpret_cast<const int32_t*>(bounds.bytes.data());
    for (uint64_t i = 1; i < bounds.shape[0]; ++i) all.push_back(base + from[i]);
  }
  uint64_t count = all.size();
  return ViewOf(Bytes::Copy(std::as_bytes(std::span(all))), Dtype::kI32, {count});
}

}  // namespace

void BindStep(nb::module_& module) {
  nb::class_<StepView>(module, "Step")
      .def_prop_ro("number", [](const StepView& view) { return view.step.number(); })
      .def_prop_ro("mixture", [](const StepView& view) { return view.step.mixture(); })
      .def_prop_ro("first_lane", [](const StepView& view) { return view.step.lanes().first; })
      .def_prop_ro("lane_count", [](const StepView& view) { return view.step.lanes().count(); })
      .def("column", Column, nb::arg("index"), nb::arg("first"), nb::arg("end"))
      .def("labels", Labels, nb::arg("first"), nb::arg("end"), nb::arg("shifted"))
      .def("positions", Positions, nb::arg("first"), nb::arg("end"))
      .def("cu_seqlens", Bounds, nb::arg("first"), nb::arg("end"));
}

}  // namespace headrace::python
