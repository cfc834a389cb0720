#include "llvm/MC/ObjectFile.h"
#include <algorithm>
#include <elf.h>
#include <map>

namespace llvm {
template <typename T> static std::string bytes(const T &value) {
  return std::string(reinterpret_cast<const char *>(&value), sizeof value);
}

namespace {
struct SymbolTable {
  std::string strings = std::string(1, '\0');
  std::string symbols = bytes(Elf64_Sym{});
  std::map<std::string, uint64_t> index;

  void add(const std::string &name, unsigned type, uint16_t section, uint64_t value, uint64_t size) {
    if (index.count(name))
      return;
    uint64_t number = index.size() + 1;
    index[name] = number;
    Elf64_Sym symbol{};
    symbol.st_name = strings.size();
    symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, type);
    symbol.st_shndx = section;
    symbol.st_value = value;
    symbol.st_size = size;
    symbols += bytes(symbol);
    strings += name + '\0';
  }
};

struct Sections {
  std::string file = std::string(sizeof(Elf64_Ehdr), '\0');
  std::string names = std::string(1, '\0');
  std::vector<Elf64_Shdr> headers{Elf64_Shdr{}};

  void add(const std::string &name, const std::string &content, Elf64_Shdr header) {
    file.resize((file.size() + 7) / 8 * 8);
    header.sh_name = names.size();
    header.sh_offset = file.size();
    header.sh_size = content.size();
    headers.push_back(header);
    names += name + '\0';
    file += content;
  }
};
} // namespace

static Elf64_Shdr header(uint32_t type, uint64_t flags, uint32_t link, uint32_t info,
                         uint64_t entry) {
  Elf64_Shdr result{};
  result.sh_type = type;
  result.sh_flags = flags;
  result.sh_link = link;
  result.sh_info = info;
  result.sh_entsize = entry;
  result.sh_addralign = type == SHT_PROGBITS ? 4 : 8;
  return result;
}

std::string writeELF(const ObjectFile &object) {
  SymbolTable table;
  for (const Symbol &symbol : object.symbols)
    table.add(symbol.name, STT_FUNC, 1, symbol.offset, symbol.size);
  std::string relocations;
  for (const Relocation &relocation : object.relocations) {
    table.add(relocation.symbol, STT_NOTYPE, SHN_UNDEF, 0, 0);
    Elf64_Rela entry{relocation.offset,
                     ELF64_R_INFO(table.index[relocation.symbol], relocation.type), 0};
    relocations += bytes(entry);
  }
  Sections sections;
  sections.add(".text", std::string(object.text.begin(), object.text.end()),
               header(SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, 0, 0, 0));
  sections.add(".symtab", table.symbols, header(SHT_SYMTAB, 0, 3, 1, sizeof(Elf64_Sym)));
  sections.add(".strtab", table.strings, header(SHT_STRTAB, 0, 0, 0, 0));
  sections.add(".rela.text", relocations,
               header(SHT_RELA, SHF_INFO_LINK, 2, 1, sizeof(Elf64_Rela)));
  sections.add(".note.GNU-stack", "", header(SHT_PROGBITS, 0, 0, 0, 0));
  // Its own name has to be in the table before the table is written.
  sections.add(".shstrtab", sections.names + ".shstrtab" + '\0', header(SHT_STRTAB, 0, 0, 0, 0));

  Elf64_Ehdr elf{};
  sections.file.resize((sections.file.size() + 7) / 8 * 8);
  const unsigned char ident[] = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT};
  std::copy(std::begin(ident), std::end(ident), elf.e_ident);
  elf.e_type = ET_REL;
  elf.e_machine = object.machine;
  elf.e_version = EV_CURRENT;
  elf.e_flags = object.flags;
  elf.e_ehsize = sizeof elf;
  elf.e_shentsize = sizeof(Elf64_Shdr);
  elf.e_shoff = sections.file.size();
  elf.e_shnum = sections.headers.size();
  elf.e_shstrndx = elf.e_shnum - 1;
  sections.file.replace(0, sizeof elf, bytes(elf));
  for (const Elf64_Shdr &section : sections.headers)
    sections.file += bytes(section);
  return sections.file;
}

// Machine code as data: what the assembler makes of it is the object of writeELF.
std::string writeAssembly(const ObjectFile &object) {
  std::string text = "\t.text\n";
  size_t next = 0;
  for (size_t i = 0; i < object.text.size(); ++i) {
    if (next < object.symbols.size() && object.symbols[next].offset == i) {
      const std::string &name = object.symbols[next++].name;
      text += "\t.globl " + name + "\n\t.type " + name + ", @function\n" + name + ":\n";
    }
    for (const Relocation &relocation : object.relocations)
      if (relocation.offset == i)
        text += "\t.reloc ., " + relocation.name + ", " + relocation.symbol + "\n";
    text += "\t.byte " + std::to_string(object.text[i]) + "\n";
  }
  return text;
}
} // namespace llvm
