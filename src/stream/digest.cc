#include "stream/digest.h"

#include <algorithm>

#include "base/codec.h"
#include "base/hash.h"
#include "base/text.h"

namespace headrace {
namespace {

Status HashCell(const Bytes& cell, const StreamInfo& info, std::string_view what, Sha256& hash) {
  HR_ASSIGN_OR_RETURN(std::vector<Array> arrays, ReadCell(cell, info.columns, what));
  auto array = arrays.begin();
  for (const Column& column : info.columns) {
    Encoder head;
    head.PutText(column.name);
    head.Put(column.kind);
    for (int i = 0; i < column.arrays(); ++i, ++array) {
      head.Put(array->dtype);
      head.Put(static_cast<uint8_t>(array->shape.size()));
      for (uint64_t extent : array->shape) head.Put(extent);
      std::string text = head.Take();
      hash.Update(text.data(), text.size());
      hash.Update(array->bytes.data(), array->bytes.size());
      head = {};
    }
  }
  return {};
}

}  // namespace

Status DigestSteps(StreamReader& reader, const StreamInfo& info, uint64_t from, uint64_t to, const Deadline& deadline,
                   const std::function<Status(uint64_t step, const std::string& digest)>& visit) {
  for (uint64_t step = from; step < to;) {
    HR_ASSIGN_OR_RETURN(StreamReader::Block block, reader.ReadBlock(step, 0, info.lanes, deadline));
    for (; step < std::min(to, block.entry.end_step()); ++step) {
      Sha256 hash;
      const std::vector<Bytes>& lanes = block.cells[step - block.entry.first_step];
      for (uint32_t lane = 0; lane < info.lanes; ++lane) {
        HR_RETURN_IF_ERROR(HashCell(lanes[lane], info, Cat("step ", step, ", lane ", lane), hash));
      }
      HR_RETURN_IF_ERROR(visit(step, ToHex(hash.Finish())));
    }
  }
  return {};
}

}  // namespace headrace
