// `headrace mix STREAM --set web=0.5,code=0.5`: another mixture, or more sources, for a living stream.

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/text.h"
#include "cli/lake/commands.h"
#include "cli/progress.h"
#include "cli/stream_for_command.h"
#include "recipe/stream_recipe.h"
#include "stream/mixture_weights.h"

namespace headrace::cli {
namespace {

Result<Weights> ParseWeights(const std::string& text) {
  Weights weights;
  for (const std::string& part : Split(text, ',')) {
    const size_t equals = part.find('=');
    double weight = 0;
    const char* end = part.data() + part.size();
    if (equals == std::string::npos || equals + 1 == part.size())
      return Status(Code::kInvalidArgument, fmt::format("\"{}\" is not a source and its weight, as in web=0.5", part));
    const auto [read, error] = std::from_chars(part.data() + equals + 1, end, weight);
    if (error == std::errc::result_out_of_range)
      return Status(Code::kInvalidArgument, fmt::format("the weight in \"{}\" is larger or smaller than a number can be", part));
    if (error != std::errc() || read != end)
      return Status(Code::kInvalidArgument, fmt::format("\"{}\" is not a source and its weight, as in web=0.5", part));
    const std::string name(Trim(std::string_view(part).substr(0, equals)));
    if (!weights.try_emplace(name, weight).second) return Status(Code::kInvalidArgument, fmt::format("{} has two weights", name));
  }
  HR_RETURN_IF_ERROR(CheckWeights(weights));
  double sum = 0;
  for (const auto& [source, weight] : weights) sum += weight;
  for (auto& [source, weight] : weights) weight /= sum;
  return weights;
}

// What was to come after the step `holds` by `before`, and does not by `now`.
std::map<uint64_t, Weights> Discarded(const MixSchedule& before, const MixSchedule& now, uint64_t holds) {
  std::map<uint64_t, Weights> gone;
  for (auto entry = before.weights.lower_bound(std::max<uint64_t>(holds, 1)); entry != before.weights.end(); ++entry) {
    const auto kept = now.weights.find(entry->first);
    if (kept != now.weights.end()) {
      Weights then = entry->second;
      for (const auto& [source, weight] : kept->second) then.try_emplace(source, 0.0);  // one that is new
      if (then == kept->second) continue;
    }
    gone.insert(*entry);
  }
  return gone;
}

std::string WeightsText(const Weights& weights) {
  std::string text;
  for (const auto& [source, weight] : weights) text += fmt::format("{}{} {:.4f}", text.empty() ? "" : ", ", source, weight);
  return text;
}

std::string Listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

class MixCommand final : public Command {
 public:
  std::string name() const override { return "mix"; }
  std::string summary() const override { return "change the mixture of a living stream, or add sources"; }

  void Declare(CLI::App& app) override {
    AddStream(app, uri_);
    app.add_option_function<std::string>(
           "--set",
           [this](const std::string& text) {
             Result<Weights> weights = ParseWeights(text);
             if (!weights.ok()) throw CLI::ValidationError("--set", weights.status().message());
             weights_ = *std::move(weights);
           },
           "the weight of each source of the stream, 0 for none of it: web=0.5,code=0.5")
        ->type_name("LIST");
    app.add_option("--from", from_, "not before this step (as soon as it can be)")->type_name("N");
    app.add_option("--recipe", recipe_, "a recipe with the mixture, and with sources that the stream does not have yet")
        ->type_name("FILE");
    app.final_callback([this] {
      if (weights_.empty() == recipe_.empty())
        throw CLI::ValidationError("say the new weights by --set, or where they stand by --recipe");
      if (from_ && !recipe_.empty())
        throw CLI::ValidationError("--from goes with --set: a recipe says by its mix.schedule from which steps on weights hold");
    });
    app.footer(
        "The answer is the first step for which the new mixture holds: after everything that is committed or about to be. The stream records it,\n"
        "so that a replay does the same. Changes that were planned for later steps, by a schedule or by --from, are taken back: those after the\n"
        "step of --from, or all; the answer names them.\n"
        "A new source is looked into as `headrace produce` does: what would stop a producer later is refused, and nothing is changed.\n"
        "\n"
        "  headrace mix s3://bucket/runs/a --set web=0.3,code=0.7\n"
        "  headrace mix s3://bucket/runs/a --set web=0.3,code=0.7 --from 20000\n"
        "  headrace mix s3://bucket/runs/a --recipe recipe-with-papers.yaml");
  }

  Result<ExitStatus> Run(const Console& console, std::stop_token stop) override {
    const Deadline deadline = Deadline::OnlyStop(stop);
    HR_ASSIGN_OR_RETURN(std::shared_ptr<StreamLog> log, OpenStreamForCommand(uri_, stop));
    HR_ASSIGN_OR_RETURN(StreamRecipe kept, ReadStreamRecipe(*log, deadline));
    while (true) {
      HR_ASSIGN_OR_RETURN(StreamLog::StatePtr state, log->Refresh(deadline));
      const uint32_t newest = state->manifest.mixtures.empty() ? 0 : state->manifest.mixtures.back().number;
      HR_ASSIGN_OR_RETURN(StreamMixture mixture, ReadMixtureToReplace(*log, kept, newest, deadline));
      const MixSchedule before = mixture.mix;
      HR_RETURN_IF_ERROR(recipe_.empty() ? Set(mixture) : Add(mixture, kept, *log, console, deadline));
      Result<uint64_t> first = CommitMixture(*log, mixture, deadline);
      if (first.code() == Code::kConflict && !log->known()->manifest.finished) continue;  // another decision came first
      HR_RETURN_IF_ERROR(first.status());
      const uint64_t holds = std::max(*first, from_.value_or(0));
      const std::map<uint64_t, Weights> discarded = Discarded(before, mixture.mix, holds);
      if (console.json()) {
        nlohmann::json gone = nlohmann::json::array();
        for (const auto& [step, weights] : discarded) gone.push_back({{"from_step", step}, {"weights", weights}});
        console.SayJson({{"mixture", log->known()->manifest.decisions},
                         {"first_step", holds},
                         {"weights", mixture.mix.At(holds)},
                         {"sources", mixture.Names()},
                         {"discarded", gone}});
      }
      console.Say(fmt::format("from step {} on:", holds));
      for (const auto& [source, weight] : mixture.mix.At(holds)) console.Say(fmt::format("  {} {:.4f}", source, weight));
      for (const auto& [step, weights] : discarded)
        console.Say(fmt::format("taken back: the change that was planned for step {} ({})", step, WeightsText(weights)));
      return kDone;
    }
  }

 private:
  Status Set(StreamMixture& mixture) const {
    const std::vector<std::string> names = mixture.Names();
    for (const auto& [source, weight] : weights_) {
      if (std::ranges::find(names, source) == names.end())
        return Status(
            Code::kInvalidArgument,
            fmt::format("the stream has no source {}; it has {}. A new one is added by --recipe", source, Listed(names)));
    }
    std::vector<std::string> missing;
    for (const std::string& known : names) {
      if (!weights_.contains(known)) missing.push_back(known);
    }
    if (!missing.empty())
      return Status(Code::kInvalidArgument,
                    fmt::format("--set names all sources of the stream, and {} is missing; {}=0 leaves {} out", Listed(missing),
                                missing.front(), missing.front()));
    Weights weights = weights_;
    if (from_) {
      if (mixture.mix.weights.empty())
        return Status(
            Code::kInvalidArgument,
            fmt::format("nothing can be drawn by the weights of mixture {}, which the stream has now: say without --from "
                        "which ones hold instead of them",
                        mixture.number));
      std::erase_if(mixture.mix.weights, [&](const auto& entry) { return entry.first > *from_; });
      mixture.mix.weights[*from_] = std::move(weights);
    } else {
      mixture.mix.ramp = false;
      mixture.mix.weights = {{0, std::move(weights)}};
    }
    return {};
  }

  Status Add(StreamMixture& mixture, const StreamRecipe& kept, StreamLog& log, const Console& console,
             const Deadline& deadline) const {
    HR_ASSIGN_OR_RETURN(const Recipe recipe, ReadRecipe(recipe_, console));
    HR_RETURN_IF_ERROR(CompareWords(recipe, kept, log, deadline));
    std::unique_ptr<LoadedRecipe> lake;  // tokenizers and Python code, only where rows are to be looked at
    Progress progress;
    LakeOptions options;
    options.python = PythonForWorkers();
    options.progress = [&](const std::string& what, uint64_t done, uint64_t of) {
      progress.Show(fmt::format("{} ({} of {})", what, done, of));
    };
    for (const SourceSpec& spec : recipe.sources) {
      auto known =
          std::ranges::find_if(mixture.sources, [&](const StreamSource& source) { return source.spec.name == spec.name; });
      if (known != mixture.sources.end()) {
        if (known->spec.Fingerprint() != spec.Fingerprint())
          return Status(Code::kConflict,
                        fmt::format("source {} reads something else in {} than in the stream: give what is new another name",
                                    spec.name, recipe.name));
        continue;
      }
      if (lake == nullptr) {
        HR_ASSIGN_OR_RETURN(lake, LoadedRecipe::Make(recipe, options));
      }
      HR_ASSIGN_OR_RETURN(StreamSource source, TakeNewSource(*lake, spec, kept, log, options, deadline));
      mixture.sources.push_back(std::move(source));
    }
    mixture.mix = recipe.mix;
    for (const std::string& name : mixture.Names()) {
      for (auto& [step, weights] : mixture.mix.weights) weights.try_emplace(name, 0.0);
    }
    return {};
  }

  std::string uri_, recipe_;
  Weights weights_;
  std::optional<uint64_t> from_;
};

}  // namespace

std::unique_ptr<Command> MakeMixCommand() { return std::make_unique<MixCommand>(); }

}  // namespace headrace::cli
