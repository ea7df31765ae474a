// `headrace pin`, `unpin` and `pins`: checkpoints' holds.

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/nearest.h"
#include "cli/command.h"
#include "cli/stream_for_command.h"
#include "cli/table.h"

namespace headrace::cli {
namespace {

class PinCommand final : public Command {
 public:
  std::string name() const override { return "pin"; }
  std::string summary() const override { return "hold a step and all that follow: `gc` leaves them"; }

  void Declare(CLI::App& app) override {
    AddStream(app, uri_);
    app.add_option("NAME", name_, "the pin; one that is there already is moved")->required();
    app.add_option("--step", step_, "the first step that is needed")->required()->type_name("N");
    app.footer("  headrace pin s3://bucket/live ckpt-1000 --step 1000");
  }

  Result<ExitStatus> Run(const Console& console, std::stop_token stop) override {
    HR_ASSIGN_OR_RETURN(std::shared_ptr<StreamLog> log, OpenStreamForCommand(uri_, stop));
    HR_RETURN_IF_ERROR(log->Commit(PinEdit{{name_, step_, 0, 0}, ""}, Deadline::OnlyStop(stop)).status());
    if (console.json()) console.SayJson({{"name", name_}, {"step", step_}});
    console.Say(fmt::format("{} holds step {} and all that follow", name_, step_));
    return kDone;
  }

 private:
  std::string uri_;
  std::string name_;
  uint64_t step_ = 0;
};

class UnpinCommand final : public Command {
 public:
  std::string name() const override { return "unpin"; }
  std::string summary() const override { return "let go of a pin"; }

  void Declare(CLI::App& app) override {
    AddStream(app, uri_);
    app.add_option("NAME", name_, "the pin")->required();
    app.add_flag("--missing-ok", missing_ok_, "a pin that is not there is as good as one that is taken away");
    app.footer(
        "A name that is no pin is an error, exit status 1: it may be a slip, and the pin that was meant would hold the stream for ever.\n"
        "\n"
        "  headrace unpin s3://bucket/live ckpt-1000\n"
        "  headrace unpin s3://bucket/live ckpt-1000 --missing-ok    # in a script that may run again");
  }

  Result<ExitStatus> Run(const Console& console, std::stop_token stop) override {
    HR_ASSIGN_OR_RETURN(std::shared_ptr<StreamLog> log, OpenStreamForCommand(uri_, stop));
    Deadline deadline = Deadline::OnlyStop(stop);
    StreamLog::StatePtr state = log->known();
    const Pin* pin = state->manifest.FindPin(name_);
    Status gone = pin == nullptr ? NoSuchPin(state->manifest) : log->Commit(UnpinEdit{name_}, deadline).status();
    if (gone.code() == Code::kNotFound && missing_ok_) {
      if (console.json()) console.SayJson({{"name", name_}, {"step", nullptr}});
      console.Say(fmt::format("there was no pin named \"{}\"", name_));
      return kDone;
    }
    HR_RETURN_IF_ERROR(gone);
    if (console.json()) console.SayJson({{"name", name_}, {"step", pin->step}});
    console.Say(fmt::format("{} is gone; it held step {}", name_, pin->step));
    return kDone;
  }

 private:
  Status NoSuchPin(const Manifest& manifest) const {
    std::vector<std::string_view> names;
    for (const Pin& pin : manifest.pins) names.emplace_back(pin.name);
    std::string_view near = Nearest(name_, names);
    std::string hint = near.empty() ? "`headrace pins` lists them" : fmt::format("did you mean {}?", near);
    return Status(Code::kNotFound, names.empty() ? fmt::format("there is no pin named \"{}\", nor any other", name_)
                                                 : fmt::format("there is no pin named \"{}\"; {}", name_, hint));
  }

  std::string uri_;
  std::string name_;
  bool missing_ok_ = false;
};

class PinsCommand final : public Command {
 public:
  std::string name() const override { return "pins"; }
  std::string summary() const override { return "all pins of a stream"; }

  void Declare(CLI::App& app) override {
    AddStream(app, uri_);
    app.footer("  headrace pins s3://bucket/live --json");
  }

  Result<ExitStatus> Run(const Console& console, std::stop_token stop) override {
    HR_ASSIGN_OR_RETURN(std::shared_ptr<StreamLog> log, OpenStreamForCommand(uri_, stop));
    StreamLog::StatePtr state = log->known();
    nlohmann::json pins = nlohmann::json::array();
    Table table;
    for (const Pin& pin : state->manifest.pins) {
      pins.push_back({{"name", pin.name}, {"step", pin.step}, {"term_seconds", pin.term_seconds}});
      table.Add({pin.name, fmt::format("step {}", pin.step),
                 pin.term_seconds == 0 ? "until it is taken away"
                                       : fmt::format("as long as it is renewed every {}s", pin.term_seconds)});
    }
    if (console.json()) console.SayJson({{"pins", pins}});
    for (const std::string& line : table.Lines()) console.Say(line);
    if (pins.empty()) console.Say("no pins: `gc` gives up no step");
    return kDone;
  }

 private:
  std::string uri_;
};

}  // namespace

std::unique_ptr<Command> MakePinCommand() { return std::make_unique<PinCommand>(); }
std::unique_ptr<Command> MakeUnpinCommand() { return std::make_unique<UnpinCommand>(); }
std::unique_ptr<Command> MakePinsCommand() { return std::make_unique<PinsCommand>(); }

}  // namespace headrace::cli
