// What the kernel said, in words for the person who has to do something about it.
#pragma once

#include <string>
#include <string_view>

#include "headrace/status.h"

namespace headrace {

// `error` is an errno, `doing` what failed and to what: "cannot create file:///lake/log/7".
Status FolderFailure(std::string_view doing, int error);

}  // namespace headrace
