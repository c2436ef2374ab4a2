#include "tools/command/completion/completion.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "tools/command/help.h"

namespace ringwood::tools {

void add_completion_command(CLI::App& app) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("completion", "A script that completes this command in a shell");
  command->add_option("shell", *shell, "which one")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}))
      ->type_name("SHELL")
      ->required();
  add_help(*command,
           {{"source <(ringwood completion bash)", "for this shell, if it is bash"},
            {"ringwood completion bash > ~/.local/share/bash-completion/completions/ringwood", ""},
            {"ringwood completion zsh > ~/.zfunc/_ringwood", "with ~/.zfunc in $fpath"},
            {"ringwood completion fish > ~/.config/fish/completions/ringwood.fish", ""}},
           {{0, "all is well"}, {2, "bad input"}});
  command->callback([&app, shell] {
    const CommandDoc root = read_tree(app);
    fmt::print("{}", *shell == "bash"  ? bash_completion(root)
                     : *shell == "zsh" ? zsh_completion(root)
                                       : fish_completion(root));
  });
}

}  // namespace ringwood::tools
