#include "recipe/yaml.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>

#include "base/text.h"

namespace headrace {
namespace {

constexpr size_t kMostBytes = 4 << 20;
// An alias is a copy here: a few lines of nested aliases could ask for more of them than there is memory.
constexpr size_t kMostNodes = 200'000;
constexpr int kMostDepth = 32;

Mark MarkOf(const YAML::Mark& mark) { return mark.is_null() ? Mark{} : Mark{mark.line + 1, mark.column + 1}; }

// Some nodes have no mark of their own in yaml-cpp: those stand where their key stands.
Mark MarkOf(const YAML::Node& node, Mark otherwise) {
  // An empty value's mark is that of the next word, wherever that is.
  Mark mark = node.IsNull() ? Mark{} : MarkOf(node.Mark());
  return mark.line == 0 ? otherwise : mark;
}

class Converter {
 public:
  explicit Converter(std::string_view name) : name_(name) {}

  Result<Yaml> Convert(const YAML::Node& node, const std::string& path, Mark at, int depth) {
    Yaml yaml;
    yaml.mark = MarkOf(node, at);
    if (depth > kMostDepth)
      return Wrong(yaml.mark, path.substr(0, path.find_first_of(".[")),
                   Cat("nested more than ", kMostDepth, " levels deep, or an alias that contains itself"));
    if (++nodes_ > kMostNodes)
      return Wrong(yaml.mark, path,
                   Cat("the recipe has more than ", kMostNodes, " values, its aliases counted as often as they are used"));
    switch (node.Type()) {
      case YAML::NodeType::Undefined:
      case YAML::NodeType::Null: break;
      case YAML::NodeType::Scalar:
        yaml.kind = Yaml::kScalar;
        yaml.scalar = node.Scalar();
        yaml.quoted = node.Tag() == "!";
        if (!IsUtf8(yaml.scalar)) return Wrong(yaml.mark, path, "this is not UTF-8");
        break;
      case YAML::NodeType::Sequence:
        yaml.kind = Yaml::kList;
        for (const YAML::Node& item : node) {
          HR_ASSIGN_OR_RETURN(Yaml child, Convert(item, Cat(path, "[", yaml.list.size(), "]"), yaml.mark, depth + 1));
          yaml.list.push_back(std::move(child));
        }
        break;
      case YAML::NodeType::Map: HR_RETURN_IF_ERROR(ConvertMap(node, path, depth, yaml)); break;
    }
    return yaml;
  }

  Status Wrong(Mark mark, std::string_view path, std::string_view what) const {
    return Status(Code::kInvalidArgument, Cat(MarkText(name_, mark), ": ", path, path.empty() ? "" : ": ", what));
  }

 private:
  Status ConvertMap(const YAML::Node& node, const std::string& path, int depth, Yaml& yaml) {
    yaml.kind = Yaml::kMap;
    std::vector<Yaml> merged;
    std::map<std::string, Mark, std::less<>> seen;
    for (const auto& pair : node) {
      Mark at = MarkOf(pair.first, yaml.mark);
      if (!pair.first.IsScalar()) return Wrong(at, path, "a key must be a word or a number");
      const std::string& key = pair.first.Scalar();
      if (!IsUtf8(key)) return Wrong(at, path, "this key is not UTF-8");
      const std::string below = path.empty() ? key : Cat(path, ".", key);
      auto [first, added] = seen.emplace(key, at);
      if (!added) return Wrong(at, below, Cat("this key is there twice: also on line ", first->second.line));
      HR_ASSIGN_OR_RETURN(Yaml value, Convert(pair.second, below, at, depth + 1));
      if (key != "<<") {
        yaml.map.push_back({key, at, std::move(value)});
      } else if (value.kind == Yaml::kMap) {
        merged.push_back(std::move(value));
      } else if (value.kind == Yaml::kList &&
                 std::ranges::all_of(value.list, [](const Yaml& item) { return item.kind == Yaml::kMap; })) {
        for (Yaml& item : value.list) merged.push_back(std::move(item));
      } else {
        return Wrong(at, below, "a merge key takes a map, or a list of maps");
      }
    }
    // What is written here wins over what is merged in; of what is merged in, the first.
    for (Yaml& other : merged) {
      for (Yaml::Entry& entry : other.map) {
        if (seen.emplace(entry.key, entry.mark).second) yaml.map.push_back(std::move(entry));
      }
    }
    return Status::Ok();
  }

  std::string_view name_;
  size_t nodes_ = 0;
};

}  // namespace

const Yaml* Yaml::Find(std::string_view key) const {
  for (const Entry& entry : map) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

std::string MarkText(std::string_view name, Mark mark) {
  return mark.line == 0 ? std::string(name) : Cat(name, ":", mark.line, ":", mark.column);
}

Result<Yaml> ParseYaml(const std::string& text, std::string_view name) {
  Converter converter(name);
  if (text.size() > kMostBytes)
    return converter.Wrong(
        {}, "", Cat("a recipe of ", text.size(), " bytes; at most ", kMostBytes, " are read. Is this the right file?"));
  try {
    std::vector<YAML::Node> documents = YAML::LoadAll(text);
    if (documents.size() > 1) {
      return converter.Wrong(MarkOf(documents[1].Mark()), "",
                             Cat("a recipe is one YAML document; here are ", documents.size(), ", separated by ---"));
    }
    if (documents.empty()) return Yaml{};
    return converter.Convert(documents.front(), "", {1, 1}, 0);
  } catch (const YAML::Exception& failure) {
    return converter.Wrong(MarkOf(failure.mark), "", Cat("this is not YAML: ", failure.msg));
  } catch (const std::exception& failure) {
    return converter.Wrong({}, "", Cat("this cannot be read as YAML: ", failure.what()));
  }
}

}  // namespace headrace
