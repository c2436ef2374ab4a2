#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/command/completion/completion.h"

namespace ringwood::tools {
namespace {

// What the functions below leave in `reply`: the first word says how the others are meant.
//   (nothing)  no value stands there      list      words with commas between them
//   words      one of these words         optional  before one of these: it may be left out
// and among the words @files, @folders, @algorithms.
std::string reply_of(const ArgumentDoc& argument) {
  const Values& values = argument.values;
  if (argument.type.empty()) return "";
  std::vector<std::string> words = {values.list ? "list" : "words"};
  if (!argument.needs_value && !argument.names.empty()) words.insert(words.begin(), "optional");
  if (values.files) words.emplace_back("@files");
  if (values.folders) words.emplace_back("@folders");
  if (values.algorithms) words.emplace_back("@algorithms");
  for (const std::string& word : values.words) words.push_back(word);
  if (values.algorithms) {
    // Those of the collective on the line take the place of all.
    for (const std::string& name : algorithm_names()) std::erase(words, name);
  }
  return fmt::format("{}", fmt::join(words, " "));
}

std::string function(const char* name, const std::string& cases) {
  return fmt::format("{}() {{\n  reply=\n  case $1 in\n{}  esac\n}}\n\n", name, cases);
}

std::string commands_function(const std::vector<const CommandDoc*>& all) {
  std::string cases;
  for (const CommandDoc* command : all) {
    if (command->commands.empty()) continue;
    std::vector<std::string> names;
    for (const CommandDoc& below : command->commands) names.push_back(below.name());
    cases += fmt::format("    '{}') reply='{}' ;;\n", command->below_root(), fmt::join(names, " "));
  }
  return function("_ringwood_commands", cases);
}

std::string options_function(const std::vector<const CommandDoc*>& all) {
  std::string cases;
  for (const CommandDoc* command : all) {
    std::vector<std::string> names;
    for (const ArgumentDoc& option : command->options)
      names.insert(names.end(), option.names.begin(), option.names.end());
    cases += fmt::format("    '{}') reply='{}' ;;\n", command->below_root(), fmt::join(names, " "));
  }
  return function("_ringwood_options", cases);
}

// Asked with "perf --dtype", and with "perf 1" for the first word that is no option.
std::string arguments_function(const std::vector<const CommandDoc*>& all) {
  std::string cases;
  const auto add = [&](const std::vector<std::string>& patterns, const std::string& reply) {
    if (!reply.empty())
      cases += fmt::format("    {}) reply='{}' ;;\n", fmt::join(patterns, " | "), reply);
  };
  for (const CommandDoc* command : all) {
    const std::string path = command->below_root();
    for (const ArgumentDoc& option : command->options) {
      std::vector<std::string> patterns;
      for (const std::string& name : option.names)
        patterns.push_back(fmt::format("'{} {}'", path, name));
      add(patterns, reply_of(option));
    }
    for (size_t i = 0; i < command->positions.size(); ++i) {
      const ArgumentDoc& position = command->positions[i];
      add({position.repeats ? fmt::format("'{} '[0-9]*", path)
                            : fmt::format("'{} {}'", path, i + 1)},
          reply_of(position));
    }
  }
  return function("_ringwood_argument", cases);
}

std::string algorithms_function() {
  std::string cases;
  for (const std::string& collective : collective_names())
    cases += fmt::format("    {}) reply='{}' ;;\n", collective,
                         fmt::join(algorithm_names(collective), " "));
  cases += fmt::format("    '') reply='{}' ;;\n", fmt::join(algorithm_names(), " "));
  return function("_ringwood_algorithms", cases);
}

constexpr const char* kEngine = R"bash(
_ringwood() {
  local cur=${COMP_WORDS[COMP_CWORD]} path= position=1 collective= pending= word reply i
  # `--option=value` comes as three words.
  local -a words=("${COMP_WORDS[@]:1:COMP_CWORD-1}")
  if [[ $cur == = ]]; then cur=; fi
  for ((i = 0; i < ${#words[@]}; ++i)); do
    word=${words[i]}
    [[ $word == = ]] && continue
    if [[ -n $pending ]]; then
      if [[ $pending != optional* || $word != -* ]]; then
        pending=
        continue
      fi
    fi
    pending=
    if [[ $word == -* ]]; then
      _ringwood_argument "$path $word"
      pending=$reply
      continue
    fi
    _ringwood_commands "$path"
    if [[ " $reply " == *" $word "* ]]; then
      path=${path:+$path }$word
      position=1
      continue
    fi
    _ringwood_algorithms "$word"
    [[ -n $reply ]] && collective=$word
    position=$((position + 1))
  done

  local wanted=$pending also_options=
  [[ $cur == -* && $pending != words* && $pending != list* ]] && wanted=
  if [[ -z $wanted || $wanted == optional* ]]; then
    also_options=1
    _ringwood_commands "$path"
    local commands=$reply
    _ringwood_argument "$path $position"
    wanted="${wanted:+$wanted }${reply:-words} $commands"
    [[ $cur == -* ]] && wanted=
  fi
  wanted=${wanted#optional }
  local kind=${wanted%% *} before= candidates= files=
  for word in $wanted; do
    case $word in
      words | list) ;;
      @files) files=-f ;;
      @folders) files=-d ;;
      @algorithms)
        _ringwood_algorithms "$collective"
        candidates+=" $reply"
        ;;
      *) candidates+=" $word" ;;
    esac
  done
  if [[ $kind == list && $cur == *,* ]]; then
    before=${cur%,*},
    cur=${cur##*,}
  fi
  COMPREPLY=()
  while IFS= read -r word; do COMPREPLY+=("$word"); done < <(
    compgen -P "$before" -W "$candidates" -- "$cur"
    if [[ -n $files ]]; then compgen $files -- "$cur"; fi
    if [[ -n $also_options && $cur == -* ]]; then
      _ringwood_options "$path"
      compgen -W "$reply" -- "$cur"
    fi
  )
  [[ -n $files ]] && compopt -o filenames 2>/dev/null
  [[ $kind == list ]] && compopt -o nospace 2>/dev/null
  return 0
}
complete -F _ringwood ringwood
)bash";

}  // namespace

std::string bash_completion(const CommandDoc& root) {
  const std::vector<const CommandDoc*> all = all_of(root);
  return "# Completes `ringwood` in bash. Made by `ringwood completion bash`.\n\n" +
         commands_function(all) + options_function(all) + arguments_function(all) +
         algorithms_function() + std::string(kEngine).substr(1);
}

}  // namespace ringwood::tools
