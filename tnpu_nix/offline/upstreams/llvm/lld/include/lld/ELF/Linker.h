#pragma once
#include "lld/Common/Arguments.h"
#include <cassert>
#include <elf.h>
#include <map>

namespace lld::elf {
struct InputFile;

struct InputSection {
  const InputFile *file = nullptr;
  std::string name;
  Elf64_Shdr header{};
  std::string data;
  std::vector<Elf64_Rela> relocations;
  uint64_t address = 0;
  std::string where(uint64_t offset) const; // "a.o:(.text+0x10)", for messages
};

struct InputFile {
  std::string path;
  uint32_t flags = 0;
  std::vector<InputSection> sections; // by section index
  std::vector<Elf64_Sym> symbols;
  std::string strings;

  std::string symbolName(uint32_t index) const {
    assert(index < symbols.size() && "relocation names a symbol that is not there");
    return strings.c_str() + symbols[index].st_name;
  }
};

/// Reads a relocatable RV64 object; anything else is fatal.
void readObject(const std::string &path, InputFile &file);

class Linker {
public:
  explicit Linker(Configuration configuration) : config(std::move(configuration)) {}
  /// Links and writes the executable.
  void run();
  /// Address of what a relocation's symbol stands for.
  uint64_t address(const InputFile &file, uint32_t symbol, const std::string &where) const;

private:
  struct Group {
    uint32_t flags; // of the program header
    std::vector<InputSection *> sections;
    uint64_t address = 0, fileSize = 0, memorySize = 0;
  };
  void addSymbols(InputFile &file);
  void layout();
  void defineLinkerSymbols();
  std::string image() const;

  Configuration config;
  std::vector<InputFile> files;
  std::map<std::string, std::pair<const InputFile *, uint32_t>> globals;
  std::map<std::string, uint64_t> linkerSymbols;
  Group groups[4] = {{PF_R, {}}, {PF_R | PF_X, {}}, {PF_R | PF_W, {}}, {PF_R | PF_W, {}}};
};

/// Applies every relocation of a section to its data; an unknown type or an overflow is fatal.
void relocateRISCV(const Linker &linker, InputSection &section);
} // namespace lld::elf
