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

namespace headrace::cli {
namespace {

Result<std::map<std::string, double>> ParseWeights(const std::string& text) {
  std::map<std::string, double> weights;
  double sum = 0;
  for (const std::string& part : Split(text, ',')) {
    const size_t equals = part.find('=');
    double weight = 0;
    const char* end = part.data() + part.size();
    const bool number = equals != std::string::npos && std::from_chars(part.data() + equals + 1, end, weight).ptr == end &&
                        equals + 1 < part.size();
    if (!number || weight < 0)
      return Status(Code::kInvalidArgument, fmt::format("\"{}\" is not a source and its weight, as in web=0.5", part));
    const std::string name(Trim(std::string_view(part).substr(0, equals)));
    if (!weights.try_emplace(name, weight).second) return Status(Code::kInvalidArgument, fmt::format("{} has two weights", name));
    sum += weight;
  }
  if (!(sum > 0)) return Status(Code::kInvalidArgument, "the weights are all 0: nothing could be drawn");
  return weights;
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
             Result<std::map<std::string, double>> weights = ParseWeights(text);
             if (!weights.ok()) throw CLI::ValidationError("--set", weights.status().message());
             weights_ = *std::move(weights);
           },
           "weights of all sources: web=0.5,code=0.5")
        ->type_name("LIST");
    app.add_option("--from", from_, "not before this step (as soon as it can be)")->type_name("N");
    app.add_option("--recipe", recipe_, "a recipe with the mixture, and with sources that the stream does not have yet")
        ->type_name("FILE");
    app.final_callback([this] {
      if (weights_.empty() == recipe_.empty())
        throw CLI::ValidationError("say the new weights by --set, or where they stand by --recipe");
    });
    app.footer(
        "The answer is the first step for which the new mixture holds: after everything that is committed or about to be. The stream records it,\n"
        "so that a replay does the same.\n"
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
      HR_ASSIGN_OR_RETURN(StreamMixture mixture, ReadMixture(*log, kept, newest, deadline));
      HR_RETURN_IF_ERROR(recipe_.empty() ? Set(mixture) : Add(mixture, *log, console, deadline));
      Result<uint64_t> first = CommitMixture(*log, mixture, deadline);
      if (first.code() == Code::kConflict && !log->known()->manifest.finished) continue;  // another decision came first
      HR_RETURN_IF_ERROR(first.status());
      const uint64_t holds = std::max(*first, from_.value_or(0));
      if (console.json()) {
        console.SayJson({{"mixture", log->known()->manifest.decisions},
                         {"first_step", holds},
                         {"weights", mixture.mix.At(holds)},
                         {"sources", mixture.Names()}});
      }
      console.Say(fmt::format("from step {} on:", holds));
      for (const auto& [source, weight] : mixture.mix.At(holds)) console.Say(fmt::format("  {} {:.4f}", source, weight));
      return kDone;
    }
  }

 private:
  Status Set(StreamMixture& mixture) const {
    const std::vector<std::string> names = mixture.Names();
    for (const auto& [source, weight] : weights_) {
      if (std::ranges::find(names, source) == names.end()) {
        std::string there;
        for (const std::string& known : names) there += (there.empty() ? "" : ", ") + known;
        return Status(Code::kInvalidArgument,
                      fmt::format("the stream has no source {}; it has {}. A new one is added by --recipe", source, there));
      }
    }
    std::map<std::string, double> weights = weights_;
    for (const std::string& known : names) weights.try_emplace(known, 0.0);
    if (from_) {
      std::erase_if(mixture.mix.weights, [&](const auto& entry) { return entry.first > *from_; });
      mixture.mix.weights[*from_] = std::move(weights);
    } else {
      mixture.mix.ramp = false;
      mixture.mix.weights = {{0, std::move(weights)}};
    }
    return {};
  }

  Status Add(StreamMixture& mixture, StreamLog& log, const Console& console, const Deadline& deadline) const {
    HR_ASSIGN_OR_RETURN(Recipe recipe, ReadRecipe(recipe_, console));
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
      // Strands and window are the stream's, whatever the recipe says by now.
      Recipe like = recipe;
      like.strands = log.info().strands;
      HR_ASSIGN_OR_RETURN(StreamSource source, TakeInventory(like, spec, recipe.sources.size(), options, log.store(), deadline));
      mixture.sources.push_back(std::move(source));
    }
    mixture.mix = recipe.mix;
    for (const std::string& name : mixture.Names()) {
      for (auto& [step, weights] : mixture.mix.weights) weights.try_emplace(name, 0.0);
    }
    return {};
  }

  std::string uri_, recipe_;
  std::map<std::string, double> weights_;
  std::optional<uint64_t> from_;
};

}  // namespace

std::unique_ptr<Command> MakeMixCommand() { return std::make_unique<MixCommand>(); }

}  // namespace headrace::cli
