// The objects of a recipe that a stream refers to: the recipe itself, its mixtures, and the inventories of their sources. Readers do well without
// them; a producer that goes on with the stream does not.
#pragma once

#include "stream/verify.h"

namespace headrace {

// Adds what is damaged or missing to the report; fails only if the store cannot be read. Reads them whole: a recipe and an inventory have to have the hash
// that is their name, and a mixture has to be JSON whose weights something can be drawn by.
Status VerifyRecipe(StreamLog& log, const Deadline& deadline, VerifyReport& report);

}  // namespace headrace
