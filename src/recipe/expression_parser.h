// From the text of an expression to its program.
#pragma once

#include "recipe/expression_program.h"

namespace headrace {

// Fills everything but the text, which outlives the call. An error names the character it is at and shows it.
Status ParseExpression(std::string_view text, Expression::Program& program);

}  // namespace headrace
