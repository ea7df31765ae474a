// Stands in for the crate where cargo is missing or could not build it: tokenizing then happens in worker processes.
#include "headrace_tokenizer.h"

extern "C" {
int32_t hr_tokenizer_available(void) { return 0; }
const char* hr_tokenizer_version(void) { return ""; }
HrTokenizer* hr_tokenizer_load(HrText, uint32_t, char**) { return nullptr; }
void hr_tokenizer_free(HrTokenizer*) {}
void hr_tokenizer_free_text(char*, size_t) {}
uint64_t hr_tokenizer_vocabulary(const HrTokenizer*) { return 0; }
int64_t hr_tokenizer_id(const HrTokenizer*, HrText) { return -1; }
HrTokens* hr_tokenizer_encode(const HrTokenizer*, const HrText*, size_t, int32_t, int32_t) { return nullptr; }
int64_t hr_tokens_size(const HrTokens*, size_t) { return -1; }
HrText hr_tokens_error(const HrTokens*, size_t) { return {nullptr, 0}; }
void hr_tokens_copy(const HrTokens*, int32_t*) {}
void hr_tokens_free(HrTokens*) {}
char* hr_tokenizer_decode(const HrTokenizer*, const int64_t*, size_t, size_t*, char**) { return nullptr; }
}
