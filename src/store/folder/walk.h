// The keys below a folder, in byte order of the whole key, one page at a time.
//
// The order of the entries of a directory is not the order of the keys: "a.x" < "a/b" < "a0", since '/' stands in the middle of the
// alphabet. So a directory takes part in the sorting of its parent under its name with the '/' behind it. Then a page can begin
// behind the last key of the page before, with nothing remembered in between, and what others create and delete meanwhile neither
// hides nor repeats an entry that stays.
//
// A page costs a look at every entry of the directories on its way: those that hold its keys, and no others.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "headrace/store.h"
#include "store/folder/syscalls.h"

namespace headrace {

// True for names that never belong to an object: the store's own, and what a client of NFS leaves in place of a file that is deleted while open.
bool IsHiddenName(std::string_view name);

// What a list of the folder `root` with these options answers; `in_time` is asked every now and then, and its failure passed on.
Result<ListPage> WalkFolder(FolderSyscalls& syscalls, const std::string& root, const ListOptions& options,
                            const std::function<Status()>& in_time);

}  // namespace headrace
