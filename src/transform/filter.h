// The transform `filter`: rows for which an expression is true stay.
#pragma once

#include <memory>

#include "recipe/expression.h"
#include "transform/transform.h"

namespace headrace {

std::unique_ptr<Transform> MakeFilter(Expression expression);

}  // namespace headrace
