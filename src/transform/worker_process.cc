#include "transform/worker_process.h"

#include <arrow/buffer.h>
#include <arrow/io/file.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/text.h"
#include "headrace/clock.h"
#include "transform/batch.h"

extern char** environ;

namespace headrace {
namespace {

constexpr size_t kMessageBytes = 64 * 1024;
// Where a worker finds its socket, the memory for its stacks, and its own source.
constexpr int kSocket = 3, kStacks = 4, kSource = 5;

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

Status SystemFailure(std::string_view doing) {
  int error = errno;
  return Status(error == ENOMEM || error == ENOSPC || error == EMFILE ? Code::kFull : Code::kUnavailable,
                Cat("cannot ", doing, ": ", std::strerror(error)));
}

// Out of the way of the numbers that the child gives them.
Result<Descriptor> High(int fd) {
  Descriptor low(fd);
  if (fd < 0) return SystemFailure("make a descriptor for a worker process");
  Descriptor high(fcntl(fd, F_DUPFD_CLOEXEC, 32));
  if (high.get() < 0) return SystemFailure("make a descriptor for a worker process");
  return high;
}

Status WriteAll(int fd, std::string_view data) {
  while (!data.empty()) {
    ssize_t written = write(fd, data.data(), data.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return SystemFailure("write to shared memory");
    data.remove_prefix(static_cast<size_t>(written));
  }
  return Status::Ok();
}

Result<Descriptor> MemoryOf(std::string_view data) {
  Descriptor memory(memfd_create("headrace-message", MFD_CLOEXEC));
  if (memory.get() < 0) return SystemFailure("make shared memory");
  HR_RETURN_IF_ERROR(WriteAll(memory.get(), data));
  return memory;
}

std::string ReadMemory(int fd, size_t limit) {
  std::string text;
  struct stat about;
  if (fstat(fd, &about) != 0) return text;
  text.resize(std::min<size_t>(limit, static_cast<size_t>(about.st_size)));
  size_t done = 0;
  while (done < text.size()) {
    ssize_t got = pread(fd, text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<size_t>(got);
  }
  text.resize(done);
  return text;
}

Result<Descriptor> MemoryOf(const arrow::RecordBatch& batch) {
  Descriptor memory(memfd_create("headrace-batch", MFD_CLOEXEC));
  if (memory.get() < 0) return SystemFailure("make shared memory for a batch");
  int copy = fcntl(memory.get(), F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return SystemFailure("make shared memory for a batch");
  constexpr std::string_view kDoing = "write a batch for a worker process";
  // The stream owns the copy from here on. By write, not through a mapping: no memory is an error then, not a SIGBUS.
  HR_ASSIGN_OR_RETURN_ARROW(auto sink, arrow::io::FileOutputStream::Open(copy), kDoing);
  HR_ASSIGN_OR_RETURN_ARROW(auto writer, arrow::ipc::MakeStreamWriter(sink, batch.schema()), kDoing);
  HR_RETURN_IF_ERROR(CannotDo(writer->WriteRecordBatch(batch), kDoing));
  HR_RETURN_IF_ERROR(CannotDo(writer->Close(), kDoing));
  HR_RETURN_IF_ERROR(CannotDo(sink->Close(), kDoing));
  return memory;
}

class MappedBuffer final : public arrow::Buffer {
 public:
  MappedBuffer(void* address, int64_t size) : arrow::Buffer(static_cast<const uint8_t*>(address), size), address_(address) {}
  ~MappedBuffer() override { munmap(address_, static_cast<size_t>(size())); }

 private:
  void* address_;
};

Result<std::shared_ptr<arrow::RecordBatch>> BatchIn(int fd) {
  struct stat about;
  if (fstat(fd, &about) != 0) return SystemFailure("read a worker's answer");
  // Who could shrink it could kill us by SIGBUS.
  int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || (seals & F_SEAL_WRITE) == 0) {
    return Status(Code::kInternal, "a worker process answered with memory that is not sealed");
  }
  auto size = static_cast<size_t>(about.st_size);
  void* address = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) return SystemFailure("map a worker's answer");
  auto buffer = std::make_shared<MappedBuffer>(address, static_cast<int64_t>(size));
  constexpr std::string_view kDoing = "read a worker's answer";
  HR_ASSIGN_OR_RETURN_ARROW(auto reader,
                            arrow::ipc::RecordBatchStreamReader::Open(std::make_shared<arrow::io::BufferReader>(buffer)), kDoing);
  std::shared_ptr<arrow::RecordBatch> batch;
  HR_RETURN_IF_ERROR(CannotDo(reader->ReadNext(&batch), kDoing));
  if (!batch) return Status(Code::kInternal, "a worker process answered with an empty stream");
  HR_RETURN_IF_ERROR(CannotDo(batch->Validate(), kDoing));
  return batch;
}

// As the shell finds it.
Result<std::string> ProgramNamed(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    if (access(name.c_str(), X_OK) == 0) return name;
  } else if (const char* path = std::getenv("PATH")) {
    for (const auto& folder : Split(path, ':')) {
      std::string program = Cat(folder.empty() ? "." : folder, "/", name);
      if (access(program.c_str(), X_OK) == 0) return program;
    }
  }
  return Status(Code::kNotFound,
                Cat("there is no Python interpreter '", name, "', which worker processes need; name one that has pyarrow"));
}

std::string SignalText(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? Cat("SIG", name) : Cat("signal ", signal);
}

}  // namespace

Result<std::unique_ptr<WorkerProcess>> WorkerProcess::Start(const WorkerOptions& options) {
  HR_ASSIGN_OR_RETURN(std::string program, ProgramNamed(options.python));
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
    return SystemFailure("make a socket for a worker process");
  Descriptor ours(pair[0]);
  HR_ASSIGN_OR_RETURN(Descriptor theirs, High(pair[1]));
  HR_ASSIGN_OR_RETURN(Descriptor stacks, High(memfd_create("headrace-stacks", MFD_CLOEXEC)));
  HR_ASSIGN_OR_RETURN(Descriptor source, High(memfd_create("headrace-worker", MFD_CLOEXEC)));
  HR_RETURN_IF_ERROR(WriteAll(source.get(), WorkerSource()));

  // Everything that needs memory happens before the fork: after it another thread's lock would never be released.
  std::string script = Cat("/proc/self/fd/", kSource);
  if (const char* path = std::getenv("HEADRACE_WORKER")) script = path;
  std::vector<std::string> environment;
  std::map<std::string, std::string> own = options.environment;
  own["PYTHONHASHSEED"] = "0";  // sets and dicts of text in the same order in every process
  own["PYTHONUNBUFFERED"] = "1";
  for (char** entry = environ; *entry != nullptr; entry++) {
    std::string_view name(*entry);
    if (!own.contains(std::string(name.substr(0, name.find('='))))) environment.emplace_back(*entry);
  }
  for (const auto& [name, value] : own) environment.push_back(Cat(name, "=", value));
  std::vector<char*> env;
  for (auto& entry : environment) env.push_back(entry.data());
  env.push_back(nullptr);
  std::string socket_text = Cat(kSocket), stacks_text = Cat(kStacks);
  std::array<char*, 5> arguments = {program.data(), script.data(), socket_text.data(), stacks_text.data(), nullptr};
  sigset_t none;
  sigemptyset(&none);
  const pid_t parent = getpid();

  pid_t pid = fork();
  if (pid < 0) return SystemFailure("start a worker process");
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    // A group of its own: Ctrl-C is ours to answer, and its children go with it when it is killed.
    setpgid(0, 0);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    signal(SIGPIPE, SIG_DFL);
    dup2(theirs.get(), kSocket);
    dup2(stacks.get(), kStacks);
    dup2(source.get(), kSource);
    dup2(STDERR_FILENO, STDOUT_FILENO);  // what the user prints must not get into our answers
    execve(program.c_str(), arguments.data(), env.data());
    _exit(127);
  }
  setpgid(pid, pid);
  std::unique_ptr<WorkerProcess> worker(new WorkerProcess(pid, ours.release(), stacks.release()));
  return worker;
}

WorkerProcess::~WorkerProcess() {
  Dismiss();
  if (pid_ > 0) Reap(2000);
  if (socket_ >= 0) close(socket_);
  close(stacks_);
}

void WorkerProcess::Dismiss() {
  if (socket_ >= 0) shutdown(socket_, SHUT_RDWR);
}

int WorkerProcess::Reap(int grace_milliseconds) {
  // Looked at before it is collected: as long as it is there nobody else can have its number, and what it has left behind can be killed by it.
  siginfo_t ended{};
  for (int waited = 0; waited < grace_milliseconds && ended.si_pid == 0; waited += 5) {
    if (waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) != 0 && errno != EINTR) break;
    if (ended.si_pid == 0) RealClock().SleepFor(std::chrono::milliseconds(5));
  }
  kill(-pid_, SIGKILL);
  if (ended.si_pid == 0) kill(pid_, SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return status;
}

std::string WorkerProcess::Stacks() const { return ReadMemory(stacks_, 16 * 1024); }

WorkerFailure WorkerProcess::Crashed() {
  Dismiss();
  int status = Reap(2000);
  std::string how = WIFSIGNALED(status)        ? Cat("was killed by ", SignalText(WTERMSIG(status)))
                    : WEXITSTATUS(status) == 0 ? std::string("ended by itself")
                                               : Cat("ended with exit code ", WEXITSTATUS(status));
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) how += " (if nobody did that, the machine was out of memory)";
  return {WorkerFailure::kCrashed, Cat("the worker process ", how), Stacks()};
}

WorkerFailure WorkerProcess::Hung(double timeout_seconds) {
  // Its stacks, for whoever has to find out what it was waiting for; then its end.
  kill(pid_, SIGUSR1);
  std::string stacks;
  for (int i = 0; i < 300; i++) {
    RealClock().SleepFor(std::chrono::milliseconds(10));
    std::string now = Stacks();
    if (!now.empty() && now == stacks) break;
    stacks = now;
  }
  kill(-pid_, SIGKILL);
  kill(pid_, SIGKILL);
  Reap(2000);
  return {WorkerFailure::kHung, Cat("no answer within ", Fixed(timeout_seconds, timeout_seconds < 10 ? 1 : 0), " s"), stacks};
}

Status WorkerProcess::Send(const nlohmann::json& request, const std::shared_ptr<arrow::RecordBatch>& batch) {
  // At most one for the text and one for the batch.
  Descriptor text_memory, batch_memory;
  std::array<int, 2> descriptors{};
  size_t count = 0;
  std::string text = request.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (text.size() > kMessageBytes) {
    HR_ASSIGN_OR_RETURN(text_memory, MemoryOf(text));
    descriptors[count++] = text_memory.get();
    text = "+";
  }
  if (batch) {
    HR_ASSIGN_OR_RETURN(batch_memory, MemoryOf(*batch));
    descriptors[count++] = batch_memory.get();
  }
  iovec piece{text.data(), text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(descriptors))> control{};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  if (count > 0) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(count * sizeof(int));
    std::memcpy(CMSG_DATA(header), descriptors.data(), count * sizeof(int));
  }
  while (sendmsg(socket_, &message, MSG_NOSIGNAL) < 0) {
    if (errno == EINTR) continue;
    return SystemFailure("send to a worker process");
  }
  return Status::Ok();
}

Result<WorkerAnswer> WorkerProcess::Receive() {
  std::string text(2 * kMessageBytes, '\0');
  iovec piece{text.data(), text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t got;
  while ((got = recvmsg(socket_, &message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {
  }
  std::vector<Descriptor> memories;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr && got > 0; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    for (size_t i = 0; i < (header->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      memories.emplace_back(fd);
    }
  }
  if (got <= 0) return WorkerAnswer{{}, nullptr, Crashed()};
  text.resize(static_cast<size_t>(got));
  if (text == "+" && !memories.empty()) {
    text = ReadMemory(memories.front().get(), SIZE_MAX);
    memories.erase(memories.begin());
  }
  WorkerAnswer answer;
  answer.message = nlohmann::json::parse(text, nullptr, false);
  if (!answer.message.is_object())
    return Status(Code::kInternal, "a worker process answered with something that is no JSON object");
  if (!answer.message.value("ok", false)) {
    answer.failure = WorkerFailure{answer.message.value("mistake", false) ? WorkerFailure::kRefused : WorkerFailure::kRaised,
                                   answer.message.value("error", "failed without a word"), answer.message.value("traceback", "")};
    return answer;
  }
  if (!memories.empty()) {
    HR_ASSIGN_OR_RETURN(answer.batch, BatchIn(memories.front().get()));
  }
  return answer;
}

Result<WorkerAnswer> WorkerProcess::Call(const nlohmann::json& request, const std::shared_ptr<arrow::RecordBatch>& batch,
                                         double timeout_seconds) {
  Status sent = Send(request, batch);
  if (!sent.ok()) {
    if (sent.code() == Code::kFull) return sent;
    return WorkerAnswer{{}, nullptr, Crashed()};
  }
  // A worker's time is the machine's: nothing else tells that a process hangs.
  const Instant until =
      Later(RealClock().Now(), std::chrono::duration_cast<Duration>(std::chrono::duration<double>(timeout_seconds)));
  while (true) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - RealClock().Now()).count();
    if (left < 0) return WorkerAnswer{{}, nullptr, Hung(timeout_seconds)};
    pollfd wait{socket_, POLLIN, 0};
    int ready = poll(&wait, 1, static_cast<int>(std::min<int64_t>(left + 1, 1 << 30)));
    if (ready > 0) return Receive();
    if (ready < 0 && errno != EINTR) return SystemFailure("wait for a worker process");
  }
}

}  // namespace headrace
