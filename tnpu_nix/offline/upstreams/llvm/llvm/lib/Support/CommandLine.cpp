#include "llvm/Support/CommandLine.h"
#include "llvm/Config/llvm-config.h"
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <set>
#include <sstream>

namespace llvm {
static std::string toolName = "llvm";
static void (*fatalHandler)(const std::string &) = nullptr;

void setFatalHandler(void (*handler)(const std::string &)) { fatalHandler = handler; }

void fatal(const std::string &message) {
  if (fatalHandler)
    fatalHandler(message);
  std::cout.flush();
  std::cerr << toolName << ": error: " << message << "\n";
  std::exit(1);
}

namespace cl {
// Not static: a second copy of this library in one process must meet the same registry.
std::set<std::string> &registeredOptions() {
  static std::set<std::string> names;
  return names;
}

Registration::Registration(const char *name) {
  if (registeredOptions().insert(name).second)
    return;
  std::cerr << ": CommandLine Error: Option '" << name << "' registered more than once!\n"
            << "LLVM ERROR: inconsistency in registered CommandLine options\n";
  std::abort();
}
static Registration printDebugInfo("mlir-print-debuginfo");

static void printHelp(const std::vector<Option> &options, const std::string &overview) {
  std::cout << "OVERVIEW: " << overview << " (tnpu-nix miniature, not LLVM)\n\n"
            << "USAGE: " << toolName << " [options] <input file>\n\nOPTIONS:\n";
  for (const Option &option : options)
    std::cout << "  --" << option.name << (option.kind == Value ? "=<value>" : "") << " - "
              << option.help << "\n";
  std::exit(0);
}

static void printVersion(const std::string &details) {
  std::cout << "tnpu-nix miniature, not LLVM\n  LLVM version " LLVM_VERSION_STRING "\n"
#ifdef NDEBUG
            << "  Optimized build.\n"
#else
            << "  Optimized build with assertions.\n"
#endif
            << details;
  std::exit(0);
}

static const Option *find(const std::vector<Option> &options, const std::string &name) {
  for (const Option &option : options)
    if (option.name == name)
      return &option;
  return nullptr;
}

Arguments parse(int argc, char **argv, const std::vector<Option> &options,
                const std::string &overview, const std::string &details) {
  toolName = argv[0];
  Arguments result;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (word == "-" || word[0] != '-') {
      result.inputs.push_back(word);
      continue;
    }
    std::string name = word.substr(word.rfind("--", 0) == 0 ? 2 : 1), value;
    size_t equals = name.find('=');
    bool joined = equals != std::string::npos;
    if (joined) {
      value = name.substr(equals + 1);
      name.resize(equals);
    }
    if (name == "help" || name == "h")
      printHelp(options, overview);
    if (name == "version")
      printVersion(details);
    const Option *option = find(options, name);
    if (!option)
      fatal("Unknown command line argument '" + word + "'.  Try: '" + toolName + " --help'");
    if (option->kind == Value && !joined) {
      if (++i == argc)
        fatal("for the --" + name + " option: requires a value!");
      value = argv[i];
    }
    result.given[name].push_back(value);
  }
  return result;
}
} // namespace cl

std::string readFile(const std::string &path) {
  std::ifstream file;
  std::istream *stream = &std::cin;
  if (path != "-") {
    file.open(path, std::ios::binary);
    if (!file)
      fatal("cannot open input file '" + path + "': No such file or directory");
    stream = &file;
  }
  return std::string(std::istreambuf_iterator<char>(*stream), {});
}

std::string readInput(const cl::Arguments &arguments) {
  if (arguments.inputs.size() > 1)
    fatal("Too many positional arguments specified: '" + arguments.inputs[1] + "'");
  return readFile(arguments.inputs.empty() ? "-" : arguments.inputs[0]);
}

void writeOutput(const cl::Arguments &arguments, const std::string &content) {
  std::string path = arguments.get("o", "-");
  if (path == "-") {
    std::cout << content << std::flush;
    return;
  }
  std::ofstream file(path, std::ios::binary);
  file << content;
  file.close();
  if (!file)
    fatal("cannot write output file '" + path + "'");
}

static bool isWordCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '$';
}

std::vector<std::string> tokenize(const std::string &line) {
  std::vector<std::string> words;
  for (size_t i = 0; i < line.size();) {
    size_t start = i++;
    char c = line[start];
    if (std::isspace(static_cast<unsigned char>(c)))
      continue;
    if (c == ';' || line.compare(start, 2, "//") == 0)
      break;
    if (line.compare(start, 2, "->") == 0) {
      ++i;
    } else if (c == '"') {
      i = line.find('"', i);
      i = i == std::string::npos ? line.size() : i + 1;
    } else if (isWordCharacter(c) || std::string("%@^#!-").find(c) != std::string::npos) {
      while (i < line.size() && isWordCharacter(line[i]))
        ++i;
    }
    words.push_back(line.substr(start, i - start));
  }
  return words;
}

std::vector<std::string> splitList(const std::string &text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);)
    parts.push_back(part);
  return parts;
}

std::vector<std::string> splitLines(const std::string &text) { return splitList(text, '\n'); }
} // namespace llvm
