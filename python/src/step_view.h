// A step of the loader with what is needed to hand out its arrays.
#pragma once

#include <memory>
#include <optional>

#include "base/buffer_pool.h"
#include "load/packed.h"
#include "load/step.h"

namespace headrace::python {

struct StepView {
  Step step;
  std::shared_ptr<const std::optional<PackedColumns>> packed;
  std::shared_ptr<BufferPool> pool;  // for what is put together
};

}  // namespace headrace::python
