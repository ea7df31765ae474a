// One step as a file has it, before it is split over the lanes.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/npz.h"
#include "stream/cell.h"
#include "stream/stream_info.h"

namespace headrace::cli {

// A column of all lanes together. Rows are what is dealt out: the leading dimension of an array, or the rows that `offsets` mark.
struct StepColumn {
  Array values;
  std::vector<int64_t> offsets;  // empty for a plain array; else one more than there are rows
};

// The columns in the stream's order. Refused are missing and unknown names, and numbers that a column's type cannot hold.
//
// A JSON object has a nested list for an array, a list of lists for a ragged column, a list of texts for a bytes column. An .npz has
// an array for an array, `name.values` and `name.offsets` for the other two, or an array of texts for a bytes column.
Result<std::vector<StepColumn>> StepFromJson(const nlohmann::json& object, const std::vector<Column>& columns);
Result<std::vector<StepColumn>> StepFromNpz(const std::vector<NpyArray>& arrays, const std::vector<Column>& columns);

// The array with its numbers in another type; refused if one does not fit.
Result<Array> Converted(const Array& from, Dtype dtype);
// What is wrong with a column of a step, and the name that the stream does not have.
Status InColumn(const Column& column, std::string_view why);
Status NoSuchColumn(std::string_view name, const std::vector<Column>& columns);

// The same number of rows for each lane; refused if that cannot be.
Result<std::vector<Body>> SplitOverLanes(const std::vector<StepColumn>& step, const StreamInfo& info);

}  // namespace headrace::cli
