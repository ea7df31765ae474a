// Transforms that only look at columns: `select`, `rename`, `cast`.
#pragma once

#include <arrow/type.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "transform/transform.h"

namespace headrace {

// "int32", "list<float16>", …: the types that `cast` knows by the names that Arrow prints; nothing if it is none of them.
std::shared_ptr<arrow::DataType> TypeNamed(std::string_view name);

// Only these columns, and where the row comes from.
std::unique_ptr<Transform> MakeSelect(std::vector<std::string> columns);
// By old name.
std::unique_ptr<Transform> MakeRename(std::map<std::string, std::string> names);
// Type by column. A value that does not fit (300 as uint8, "x" as int32) makes its row a bad one.
Result<std::unique_ptr<Transform>> MakeCast(const std::map<std::string, std::string>& types);

}  // namespace headrace
