// The transforms that make tokens: `tokenize` of a text, `chat` of messages.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transform/tokenizer.h"
#include "transform/transform.h"

namespace headrace {

// A transform that makes tokens can also tell what they mean.
class TokenTransform : public Transform {
 public:
  virtual Result<std::string> Decode(const std::vector<int64_t>& tokens) = 0;
  // In this process, not in a worker.
  virtual bool native() const { return false; }
};

// `tokens` (list<int32>) of the text in `from`, which goes away unless it is kept. An empty text has no tokens but those of add_bos and add_eos.
Result<std::unique_ptr<TokenTransform>> MakeTokenize(const TransformSpec& spec, const std::string& folder, bool keep_from,
                                                     const TransformOptions& options);
// `tokens` and `loss_mask` (list<uint8>) of the messages in `from`: a list of {role, content, …}, or that as JSON.
Result<std::unique_ptr<TokenTransform>> MakeChat(const TransformSpec& spec, const std::string& folder, bool keep_from,
                                                 const TransformOptions& options);

// `path` as it is, or below `folder` if it is relative.
std::string BelowFolder(const std::string& folder, const std::string& path);

}  // namespace headrace
