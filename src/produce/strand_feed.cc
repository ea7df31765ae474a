#include "produce/strand_feed.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/crc32c.h"
#include "base/text.h"
#include "source/block_pool.h"
#include "source/format.h"

namespace headrace {
namespace {

using Json = nlohmann::json;

Json ToJson(const Position& at) { return {at.epoch, at.group, at.piece, at.index}; }

Position PositionFrom(const Json& json) {
  return {json.at(0).get<uint32_t>(), json.at(1).get<uint32_t>(), json.at(2).get<uint32_t>(), json.at(3).get<uint32_t>()};
}

}  // namespace

StrandFeed::StrandFeed(const Recipe& recipe, const Sources& sources, std::vector<std::string> kept, uint16_t strand,
                       const Deadline& deadline)
    : recipe_(recipe), sources_(sources), kept_(std::move(kept)), strand_(strand), deadline_(deadline) {}

double StrandFeed::Epochs(size_t source) const {
  const SourceSpec& spec = sources_.spec(source);
  if (spec.epochs > 0) return spec.epochs;
  if (recipe_.until.kind == Until::kEpochs) return recipe_.until.epochs;
  if (recipe_.until.kind == Until::kForever || spec.at_end == AtEnd::kRepeat) return std::numeric_limits<double>::infinity();
  return 1;
}

const EpochCut* StrandFeed::CutOf(size_t source) {
  Cursor& cursor = cursors_[source];
  const double left = Epochs(source) - cursor.at.epoch;
  if (left <= 0 || left >= 1) return nullptr;
  if (!cursor.cut) cursor.cut = sources_.loader(source).Cut(strand_, cursor.at.epoch, left);
  return &*cursor.cut;
}

bool StrandFeed::HadItsEpochs(size_t source) {
  const Cursor& cursor = cursors_[source];
  if (cursor.ended || cursor.at.epoch >= Epochs(source)) return true;
  const EpochCut* cut = CutOf(source);
  if (cut == nullptr || cursor.at.group != cut->group) return cut != nullptr && cursor.at.group > cut->group;
  // Its size is one of rows only where those were counted; where they were not, the group is drawn to its end.
  return static_cast<double>(cursor.seen + cursor.at.index) >= cut->fraction * static_cast<double>(cut->size);
}

// A repeated source goes on until every source has had its epochs.
bool StrandFeed::EveryoneHadTheirs() {
  for (size_t i = 0; i < cursors_.size(); ++i) {
    if (!HadItsEpochs(i)) return false;
  }
  return true;
}

// All samples of a window, but for the group that the source's last epoch ends in: there, every piece gives its part, so that nobody needs to know how many
// rows transforms and holdouts leave.
uint32_t StrandFeed::Most(size_t source, const OpenWindow& window) {
  const Cursor& cursor = cursors_[source];
  const std::vector<uint32_t>& order = window.window->order;
  const auto all = static_cast<uint32_t>(order.size());
  if (sources_.spec(source).at_end == AtEnd::kRepeat) return all;
  const EpochCut* cut = CutOf(source);
  if (cut == nullptr || cursor.at.group != cut->group) return all;
  // Strands round at different places, so that together they are not off by more than one is.
  const double round = (strand_ + 0.5) / std::max(1u, recipe_.strands);
  const auto wanted = static_cast<uint64_t>(cut->fraction * static_cast<double>(cursor.seen + all) + round);
  auto most = static_cast<uint32_t>(std::min<uint64_t>(all, wanted - std::min(wanted, cursor.drawn)));
  // Rows of a group stay together.
  const auto group_of = [&](uint32_t index) {
    const uint32_t row = order[index];
    const auto part = static_cast<size_t>(std::ranges::upper_bound(window.first, row) - window.first.begin() - 1);
    const OpenPart& open = *window.parts[part];
    const int64_t at = row - window.first[part];
    return std::pair(static_cast<int64_t>(open.file->Number(at)),
                     static_cast<int64_t>(open.row->Number(at)) / recipe_.group_size);
  };
  while (recipe_.group_size > 1 && most > 0 && most < all && group_of(most) == group_of(most - 1)) ++most;
  return most;
}

Result<std::shared_ptr<const OpenWindow>> StrandFeed::Open(size_t source, const Position& at) {
  HR_ASSIGN_OR_RETURN(std::shared_ptr<const Window> window, sources_.loader(source).Load(strand_, at, deadline_));
  auto open = std::make_shared<OpenWindow>();
  open->window = std::move(window);
  uint32_t first = 0;
  for (size_t i = 0; i < open->window->parts.size(); ++i) {
    const std::shared_ptr<arrow::RecordBatch>& rows = open->window->parts[i];
    if (rows->num_rows() == 0) continue;
    HR_ASSIGN_OR_RETURN(std::shared_ptr<const OpenPart> part, OpenRows(source, rows, open->window->counted[i]));
    open->parts.push_back(std::move(part));
    open->first.push_back(first);
    first += static_cast<uint32_t>(rows->num_rows());
  }
  return open;
}

Result<std::shared_ptr<const OpenPart>> StrandFeed::OpenRows(size_t source, std::shared_ptr<arrow::RecordBatch> batch,
                                                             std::shared_ptr<const void> counted) const {
  auto open = std::make_shared<OpenPart>();
  const arrow::RecordBatch& rows = *batch;
  open->rows = std::move(batch);
  open->counted = std::move(counted);
  const auto column = [&](const std::string& name) -> Result<RowColumn> {
    Result<RowColumn> found = RowColumn::Of(rows, name);
    if (!found.ok()) return found.status().Annotate(Cat("source ", sources_.spec(source).name));
    return found;
  };
  if (RowColumn::Has(rows, "tokens")) {
    HR_ASSIGN_OR_RETURN(open->tokens, column("tokens"));
    if (open->tokens->kind() != Column::kRagged)
      return Status(Code::kInvalidArgument,
                    Cat("source ", sources_.spec(source).name, ": the column tokens does not hold lists of integers"));
  }
  if (RowColumn::Has(rows, "loss_mask")) {
    HR_ASSIGN_OR_RETURN(open->loss_mask, column("loss_mask"));
  }
  for (const std::string& name : kept_) {
    HR_ASSIGN_OR_RETURN(RowColumn kept, column(name));
    open->kept.push_back(std::move(kept));
  }
  for (const std::string& name : NumberColumns(recipe_)) {
    HR_ASSIGN_OR_RETURN(RowColumn number, column(name));
    open->numbers.push_back(std::move(number));
  }
  HR_ASSIGN_OR_RETURN(open->file, column("__file"));
  HR_ASSIGN_OR_RETURN(open->row, column("__row"));
  return open;
}

void StrandFeed::Hold(const SampleRef& ref, const OpenWindow& window, SampleInfo& info) {
  const uint32_t row = window.window->order[ref.position.index];
  const auto part = static_cast<size_t>(std::ranges::upper_bound(window.first, row) - window.first.begin() - 1);
  HeldSample held{window.parts[part], row - window.first[part]};
  info.ref = ref;
  if (held.part->tokens) {
    info.length = static_cast<uint32_t>(held.part->tokens->length(held.row));
    info.bytes = uint64_t{info.length} * held.part->tokens->width();
  }
  for (const RowColumn& kept : held.part->kept) {
    info.bytes += static_cast<uint64_t>(kept.length(held.row)) * kept.width();
  }
  // Of a list or a text, its length.
  for (const RowColumn& number : held.part->numbers)
    info.numbers.push_back(number.kind() == Column::kArray ? number.Number(held.row)
                                                           : static_cast<double>(number.length(held.row)));
  held_[ref] = std::move(held);
  in_windows_.push_back(ref);
}

Result<bool> StrandFeed::Next(uint16_t source, SampleInfo& sample) {
  if (cursors_.size() < sources_.size()) cursors_.resize(sources_.size());
  Cursor& cursor = cursors_[source];
  const SourceLoader& loader = sources_.loader(source);
  const bool repeated = sources_.spec(source).at_end == AtEnd::kRepeat;
  while (!cursor.ended) {
    const uint32_t groups = loader.Groups(strand_, cursor.at.epoch);
    const double left = Epochs(source) - cursor.at.epoch;
    const bool over = repeated ? left < 1 && EveryoneHadTheirs() : left <= 0;
    if (groups == 0 || over) {
      cursor.ended = true;
      break;
    }
    const EpochCut* cut = repeated ? nullptr : CutOf(source);
    if (cursor.at.group >= (cut ? cut->group + (cut->fraction > 0 ? 1 : 0) : groups)) {
      if (!cursor.anything) cursor.ended = true;  // nothing of it can be used: another round would not end
      cursor.at = {cursor.at.epoch + 1, 0, 0, 0};
      cursor.anything = false;
      cursor.skipped = 0;
      cursor.cut.reset();
      continue;
    }
    if (cursor.window == nullptr) {
      HR_ASSIGN_OR_RETURN(std::shared_ptr<const OpenWindow> opened, Open(source, cursor.at));
      const uint64_t skipped = cursor.skipped + opened->window->skipped;
      const uint64_t allowed = sources_.spec(source).bad_samples.value_or(recipe_.bad_samples).limit;
      if (skipped > allowed) {
        return Status(Code::kInvalidArgument,
                      Cat("source ", sources_.spec(source).name, ": strand ", strand_, " has come upon ", skipped,
                          " bad rows in epoch ", cursor.at.epoch, ", and the recipe allows ", allowed,
                          " for each source, strand and epoch. The last are those from ", opened->window->first_bad,
                          ". Mend the files, or raise the limit: bad_samples: {skip: ", 2 * skipped, "}"));
      }
      // One that is opened again in its middle was counted at its beginning.
      if (cursor.at.index == 0 && opened->window->skipped > 0) {
        skipped_.resize(std::max(skipped_.size(), size_t{source} + 1));
        skipped_[source] += opened->window->skipped;
      }
      cursor.window = std::move(opened);
      cursor.most = Most(source, *cursor.window);
    }
    const Window& window = *cursor.window->window;
    if (cursor.at.index < cursor.most) {
      const SampleRef ref{source, cursor.at};
      Hold(ref, *cursor.window, sample);
      cursor.anything = true;
      ++cursor.at.index;
      if (cursor.at.index == (cursor.most + 1) / 2) {
        Position ahead = cursor.at;
        ahead = window.last_of_group ? Position{ahead.epoch, ahead.group + 1, 0, 0}
                                     : Position{ahead.epoch, ahead.group, ahead.piece + 1, 0};
        if (ahead.group < groups && (!cut || ahead.group <= cut->group)) sources_.loader(source).Prefetch(strand_, ahead);
      }
      if (sources_.Tight()) HR_RETURN_IF_ERROR(Shrink());
      return true;
    }
    through_.push_back({source, {cursor.at.epoch, cursor.at.group, cursor.at.piece, 0}});
    const EpochCut* ends = CutOf(source);
    const bool counts = ends != nullptr && cursor.at.group == ends->group && !window.last_of_group;
    cursor.seen = counts ? cursor.seen + window.order.size() : 0;
    cursor.drawn = counts ? cursor.drawn + cursor.most : 0;
    cursor.at = window.last_of_group ? Position{cursor.at.epoch, cursor.at.group + 1, 0, 0}
                                     : Position{cursor.at.epoch, cursor.at.group, cursor.at.piece + 1, 0};
    cursor.skipped += window.skipped;
    cursor.window.reset();
  }
  return false;
}

Result<SampleInfo> StrandFeed::Again(const SampleRef& ref) {
  if (ref.source >= sources_.size())
    return Status(Code::kCorrupt, Cat("a strand's state names source ", ref.source, ", and there are ", sources_.size()));
  SampleRef place = ref;
  place.position.index = 0;
  if (again_ == nullptr || again_at_ != place) {
    HR_ASSIGN_OR_RETURN(again_, Open(ref.source, ref.position));
    again_at_ = place;
  }
  const OpenWindow& window = *again_;
  const std::string& name = sources_.spec(ref.source).name;
  const std::string blame = Cat("source ", name, ": a sample that strand ", strand_, " had drawn before is ");
  const std::string cause =
      ". A transform is not deterministic, or drops other rows than before: the same input and rng must give the same output. "
      "Producers stop here, because what is in the stream already could not be made again";
  if (ref.position.index >= window.window->order.size())
    return Status(Code::kInvalidArgument, blame + "not there any more" + cause);
  SampleInfo info;
  Hold(ref, window, info);
  if (auto expected = expected_.find(ref); expected != expected_.end() && expected->second != Checksum(held_.at(ref))) {
    const HeldSample& held = held_.at(ref);
    return Status(Code::kInvalidArgument,
                  Cat(blame, "another one now (row ", held.part->row->Number(held.row), " of ",
                      sources_.loader(ref.source).inventory().files[static_cast<size_t>(held.part->file->Number(held.row))].uri,
                      ")", cause));
  }
  if (sources_.Tight()) HR_RETURN_IF_ERROR(Shrink());
  return info;
}

uint32_t StrandFeed::Checksum(const HeldSample& sample) const {
  uint32_t crc = 0;
  const auto add = [&](const RowColumn& column) {
    const int64_t length = column.length(sample.row);
    const std::byte* data = column.data() + column.begin(sample.row) * static_cast<int64_t>(column.width());
    if (length > 0) crc = Crc32c(std::span(data, static_cast<size_t>(length) * column.width()), crc);
  };
  if (sample.part->tokens) add(*sample.part->tokens);
  if (sample.part->loss_mask) add(*sample.part->loss_mask);
  for (const RowColumn& kept : sample.part->kept) add(kept);
  return crc;
}

Status StrandFeed::Shrink() {
  for (const SampleRef& ref : in_windows_) {
    auto found = held_.find(ref);
    if (found == held_.end() || found->second.part->rows->num_rows() == 1) continue;
    HeldSample& held = found->second;
    const std::string what = Cat("source ", sources_.spec(ref.source).name);
    HR_ARROW_ASSIGN(std::shared_ptr<arrow::RecordBatch> row,
                    arrow::ConcatenateRecordBatches({held.part->rows->Slice(held.row, 1)}, BlockPool()), what);
    // Not counted: what a step holds is the block's in the making.
    HR_ASSIGN_OR_RETURN(std::shared_ptr<const OpenPart> part, OpenRows(ref.source, std::move(row), nullptr));
    held = {std::move(part), 0};
  }
  in_windows_.clear();
  CloseWindows();
  return {};
}

void StrandFeed::Retain(std::span<const SampleRef> carried) {
  std::map<SampleRef, HeldSample> kept;
  for (const SampleRef& ref : carried) {
    if (auto found = held_.find(ref); found != held_.end()) kept.insert(*found);
  }
  held_ = std::move(kept);
  in_windows_.assign(carried.begin(), carried.end());
  expected_.clear();
  again_.reset();
}

Status StrandFeed::Committed() {
  std::erase_if(through_, [&](const SampleRef& window) {
    auto held = held_.lower_bound(window);
    if (held != held_.end()) {
      SampleRef place = held->first;
      place.position.index = 0;
      // It would have to be read again if the strand changed hands.
      if (place == window) return false;
    }
    sources_.loader(window.source).Forget(strand_, window.position);
    return true;
  });
  // Others have their turn now. Windows stay with the loaders as long as there is room for them; what an idle strand held on to would be in the way.
  if (sources_.Crowded()) return Shrink();
  CloseWindows();
  return {};
}

void StrandFeed::CloseWindows() {
  for (Cursor& cursor : cursors_) cursor.window.reset();
  again_.reset();
}

Json StrandFeed::State() const {
  Json positions = Json::array();
  for (const Cursor& cursor : cursors_) {
    positions.push_back({ToJson(cursor.at), cursor.ended, cursor.anything, cursor.skipped});
    if (cursor.seen > 0) positions.back().insert(positions.back().end(), {cursor.seen, cursor.drawn});
  }
  Json carried = Json::array();
  for (const auto& [ref, held] : held_) carried.push_back({ref.source, ToJson(ref.position), Checksum(held)});
  return {{"sources", positions}, {"carried", carried}};
}

Status StrandFeed::Restore(const Json& state) {
  cursors_.clear();
  held_.clear();
  in_windows_.clear();
  expected_.clear();
  again_.reset();
  through_.clear();
  try {
    for (const Json& entry : state.at("sources")) {
      Cursor cursor;
      cursor.at = PositionFrom(entry.at(0));
      cursor.ended = entry.at(1).get<bool>();
      cursor.anything = entry.at(2).get<bool>();
      if (entry.size() > 3) cursor.skipped = entry.at(3).get<uint64_t>();
      if (entry.size() > 5) {
        cursor.seen = entry.at(4).get<uint64_t>();
        cursor.drawn = entry.at(5).get<uint64_t>();
      }
      cursors_.push_back(std::move(cursor));
    }
    for (const Json& entry : state.at("carried"))
      expected_[{entry.at(0).get<uint16_t>(), PositionFrom(entry.at(1))}] = entry.at(2).get<uint32_t>();
  } catch (const Json::exception& error) {
    return Status(Code::kCorrupt, Cat("the state of strand ", strand_, " is damaged: ", error.what()));
  }
  return {};
}

}  // namespace headrace
