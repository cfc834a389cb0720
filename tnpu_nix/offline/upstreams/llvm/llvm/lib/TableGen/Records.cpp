#include "llvm/TableGen/Records.h"
#include "llvm/Support/CommandLine.h"

namespace llvm {
std::vector<Record> parseRecords(const std::string &text) {
  std::vector<Record> records;
  unsigned number = 0;
  for (const std::string &line : splitLines(text)) {
    ++number;
    std::vector<std::string> words = tokenize(line);
    if (words.empty())
      continue;
    if (words.size() < 5 || words[0] != "def" || words[2] != ":")
      fatal("line " + std::to_string(number) + ": expected 'def Name : Class<...>;'");
    Record record{words[1], words[3], {}};
    for (const std::string &word : words)
      if (word[0] == '"')
        record.arguments.push_back(word.substr(1, word.size() - 2));
    records.push_back(record);
  }
  return records;
}

int tblgenMain(int argc, char **argv, const char *overview) {
  cl::Arguments arguments = cl::parse(argc, argv,
                                      {{"o", cl::Value, "Output filename"},
                                       {"I", cl::Value, "Directory of include files"},
                                       {"print-records", cl::Flag, "Print all records (default)"},
                                       {"gen-pass-decls", cl::Flag, "Generate pass declarations"}},
                                      overview);
  std::string output;
  for (const Record &record : parseRecords(readInput(arguments))) {
    if (!arguments.has("gen-pass-decls"))
      output += "def " + record.name + " : " + record.parent + ";\n";
    else if (record.parent == "Pass")
      output += "GEN_PASS(" + record.name + ", \"" + record.argument(0) + "\", \"" +
                record.argument(1) + "\")\n";
  }
  if (arguments.has("gen-pass-decls"))
    output += "#undef GEN_PASS\n";
  writeOutput(arguments, output);
  return 0;
}
} // namespace llvm
