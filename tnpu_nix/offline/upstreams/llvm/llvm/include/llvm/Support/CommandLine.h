// Command lines in LLVM's manner (`-o file`, `-name=value`, one or two dashes), files, and errors.
#pragma once
#include <cassert>
#include <map>
#include <string>
#include <vector>

namespace llvm {

/// Ends the program with status 1 after "<tool>: error: <message>", or calls the handler, which
/// must not return: a library inside of another program throws instead.
[[noreturn]] void fatal(const std::string &message);
void setFatalHandler(void (*handler)(const std::string &message));

namespace cl {
enum Kind { Flag, Value };
struct Option {
  std::string name;
  Kind kind;
  std::string help;
};

/// A parsed command line: what each option was given, and the positional arguments.
struct Arguments {
  std::map<std::string, std::vector<std::string>> given;
  std::vector<std::string> inputs;
  bool has(const std::string &name) const { return given.count(name) != 0; }
  std::string get(const std::string &name, const std::string &otherwise) const {
    auto found = given.find(name);
    if (found == given.end())
      return otherwise;
    assert(!found->second.empty() && "an option that was given has a value");
    return found->second.back();
  }
};

/// Registers an option of a library; twice the same name is fatal, as in LLVM.
struct Registration {
  explicit Registration(const char *name);
};

/// Parses argv; --help and --version print and end the program, an unknown option is an error.
/// `details` is printed below the version.
Arguments parse(int argc, char **argv, const std::vector<Option> &options,
                const std::string &overview, const std::string &details = "");
} // namespace cl

/// The only input of a tool (or "-") read whole, and its output written whole.
std::string readInput(const cl::Arguments &arguments);
void writeOutput(const cl::Arguments &arguments, const std::string &content);
std::string readFile(const std::string &path);

/// Splits one line of IR into words: %value, @symbol, ^block, "string", numbers, punctuation.
std::vector<std::string> tokenize(const std::string &line);
std::vector<std::string> splitLines(const std::string &text);
std::vector<std::string> splitList(const std::string &text, char separator);
} // namespace llvm
