// A cell, damaged in every way: refused with its name, or read to arrays that make a cell of the same arrays.

#include "stream/cell.h"

#include <string>

#include "tests/fuzz/expect.h"

using namespace headrace;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::vector<std::vector<Column>> shapes = {
      {{"tokens", Dtype::kI32, Column::kArray},
       {"weight", Dtype::kBf16, Column::kArray},
       {"ids", Dtype::kU16, Column::kRagged},
       {"text", Dtype::kU8, Column::kBytes}},
      {{"x", Dtype::kF64, Column::kArray}},
      {{"t", Dtype::kU8, Column::kBytes}},
  };
  for (const std::vector<Column>& columns : shapes) {
    Bytes bytes = Bytes::Copy(std::as_bytes(std::span(data, size)));
    Result<std::vector<Array>> arrays = ReadCell(bytes, columns, "the-object");
    if (!arrays.ok()) {
      HR_EXPECT(arrays.code() == Code::kCorrupt);
      HR_EXPECT(arrays.status().message().find("the-object") != std::string::npos);
      continue;
    }
    Result<Body> body = BuildCell(*arrays, columns);
    HR_EXPECT(body.ok());
    Result<std::vector<Array>> again = ReadCell(body->Join(), columns, "again");
    HR_EXPECT(again.ok() && *again == *arrays);
  }
  return 0;
}
