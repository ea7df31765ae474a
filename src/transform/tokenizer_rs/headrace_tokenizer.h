// The C interface of the Rust crate `tokenizers`, and of absent.cpp where it could not be built.
//
// Texts are borrowed for the time of a call. What comes back as a pointer is the caller's, to be freed by the function named beside it.
// Thread-safe: one tokenizer may encode for many threads at once.
#pragma once

#include <stddef.h>
#include <stdint.h>

extern "C" {

struct HrTokenizer;
struct HrTokens;
struct HrText {
  const uint8_t* data;
  size_t size;
};

// 0: built without the crate; nothing else here may be called.
int32_t hr_tokenizer_available(void);
// Of the crate, "0.22.2"; static.
const char* hr_tokenizer_version(void);

// From the text of a tokenizer.json, without its truncation and padding. Null: `error` is why (hr_tokenizer_free_text).
// With `threads` > 1 the texts of a batch are shared out to that many threads of its own.
struct HrTokenizer* hr_tokenizer_load(struct HrText json, uint32_t threads, char** error);
void hr_tokenizer_free(struct HrTokenizer* tokenizer);
// A text that was returned here; an error ends at its zero, a decoded text may hold some.
void hr_tokenizer_free_text(char* text, size_t size);

// One more than the largest id.
uint64_t hr_tokenizer_vocabulary(const struct HrTokenizer* tokenizer);
// Of a token by its exact text; -1: none.
int64_t hr_tokenizer_id(const struct HrTokenizer* tokenizer, struct HrText token);

// Each text by itself. `first` and `last` are put around each one, where they are not negative.
struct HrTokens* hr_tokenizer_encode(const struct HrTokenizer* tokenizer, const struct HrText* texts, size_t count, int32_t first,
                                     int32_t last);
// How many tokens text `index` has; -1: it could not be encoded, and hr_tokens_error (valid as long as `tokens`) says why.
int64_t hr_tokens_size(const struct HrTokens* tokens, size_t index);
struct HrText hr_tokens_error(const struct HrTokens* tokens, size_t index);
// Those of all texts that could be encoded, one after the other.
void hr_tokens_copy(const struct HrTokens* tokens, int32_t* out);
void hr_tokens_free(struct HrTokens* tokens);

// The text of the tokens, special ones included; null: `error` is why.
char* hr_tokenizer_decode(const struct HrTokenizer* tokenizer, const int64_t* tokens, size_t count, size_t* size, char** error);
}
