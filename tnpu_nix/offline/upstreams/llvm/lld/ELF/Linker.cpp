#include "lld/ELF/Linker.h"
#include <algorithm>
#include <cstring>
#include <fstream>
#include <sys/stat.h>

namespace lld::elf {
static const uint64_t page = 0x1000;
static uint64_t align(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

void Linker::addSymbols(InputFile &file) {
  for (uint32_t i = 1; i < file.symbols.size(); ++i) {
    const Elf64_Sym &symbol = file.symbols[i];
    unsigned binding = ELF64_ST_BIND(symbol.st_info);
    if (binding == STB_LOCAL || symbol.st_shndx == SHN_UNDEF)
      continue;
    std::string name = file.symbolName(i);
    if (symbol.st_shndx == SHN_COMMON)
      fatal(file.path + ": common symbol " + name + ": compile with -fno-common");
    auto [entry, isNew] = globals.insert({name, {&file, i}});
    if (isNew || binding == STB_WEAK)
      continue;
    const auto &[other, index] = entry->second;
    if (ELF64_ST_BIND(other->symbols[index].st_info) != STB_WEAK)
      fatal("duplicate symbol: " + name + "\n>>> defined in " + other->path +
            "\n>>> defined in " + file.path);
    entry->second = {&file, i};
  }
}

void Linker::layout() {
  for (InputFile &file : files)
    for (InputSection &section : file.sections) {
      const Elf64_Shdr &header = section.header;
      if (!(header.sh_flags & SHF_ALLOC))
        continue;
      int group = header.sh_flags & SHF_EXECINSTR ? 1 : header.sh_flags & SHF_WRITE ? 2 : 0;
      groups[header.sh_type == SHT_NOBITS ? 3 : group].sections.push_back(&section);
    }
  uint64_t next = config.imageBase + sizeof(Elf64_Ehdr) + 4 * sizeof(Elf64_Phdr);
  for (Group &group : groups) {
    group.address = next = group.flags == PF_R ? next : align(next, page);
    for (InputSection *section : group.sections) {
      next = align(next, std::max<uint64_t>(section->header.sh_addralign, 1));
      section->address = next;
      next += section->header.sh_size;
    }
    group.memorySize = next - group.address;
    group.fileSize = &group == &groups[3] ? 0 : group.memorySize;
  }
}

void Linker::defineLinkerSymbols() {
  auto end = [](const Group &group) { return group.address + group.memorySize; };
  linkerSymbols = {{"_etext", end(groups[1])},          {"_edata", end(groups[2])},
                   {"__bss_start", groups[3].address},  {"_end", end(groups[3])},
                   {"end", end(groups[3])},             {"__global_pointer$", groups[2].address + 0x800},
                   {"__ehdr_start", config.imageBase}};
}

uint64_t Linker::address(const InputFile &file, uint32_t index, const std::string &where) const {
  const InputFile *owner = &file;
  const Elf64_Sym *symbol = &file.symbols.at(index);
  if (ELF64_ST_BIND(symbol->st_info) != STB_LOCAL) {
    std::string name = file.symbolName(index);
    auto found = globals.find(name);
    if (found == globals.end()) {
      auto own = linkerSymbols.find(name);
      if (own != linkerSymbols.end())
        return own->second;
      if (ELF64_ST_BIND(symbol->st_info) == STB_WEAK)
        return 0;
      fatal("undefined symbol: " + name + "\n>>> referenced by " + where);
    }
    owner = found->second.first;
    symbol = &owner->symbols.at(found->second.second);
  }
  if (symbol->st_shndx == SHN_ABS)
    return symbol->st_value;
  return owner->sections.at(symbol->st_shndx).address + symbol->st_value;
}

template <typename T> static void put(std::string &bytes, uint64_t at, const T &value) {
  std::memcpy(&bytes[at], &value, sizeof value);
}

std::string Linker::image() const {
  auto start = globals.find(config.entry);
  if (start == globals.end())
    fatal("cannot find entry symbol " + config.entry);
  Elf64_Ehdr elf{};
  std::memcpy(elf.e_ident, "\x7f" "ELF" "\2\1\1", 7);
  elf.e_type = ET_EXEC;
  elf.e_machine = EM_RISCV;
  elf.e_version = EV_CURRENT;
  elf.e_entry = address(*start->second.first, start->second.second, "the entry point");
  elf.e_phoff = elf.e_ehsize = sizeof elf;
  elf.e_phentsize = sizeof(Elf64_Phdr);
  elf.e_phnum = 4;
  for (const InputFile &file : files)
    elf.e_flags |= file.flags;
  std::string bytes(groups[2].address + groups[2].fileSize - config.imageBase, '\0');
  put(bytes, 0, elf);
  uint64_t at = sizeof elf;
  for (const Group &group : groups) {
    Elf64_Phdr header{};
    header.p_type = PT_LOAD;
    header.p_flags = group.flags;
    header.p_offset = group.address - config.imageBase;
    header.p_vaddr = header.p_paddr = group.address;
    header.p_filesz = group.fileSize;
    header.p_memsz = group.memorySize;
    header.p_align = group.flags == PF_R ? 1 : page;
    put(bytes, at, header);
    at += sizeof header;
    for (const InputSection *section : group.sections)
      if (group.fileSize)
        bytes.replace(section->address - config.imageBase, section->data.size(), section->data);
  }
  return bytes;
}

void Linker::run() {
  // Sections and symbols point at their file: it must not move.
  files.resize(config.inputs.size());
  for (size_t i = 0; i < files.size(); ++i) {
    readObject(config.inputs[i], files[i]);
    if ((files[i].flags ^ files[0].flags) & EF_RISCV_FLOAT_ABI)
      fatal(files[i].path + ": cannot link object files with different floating-point ABI from " +
            files[0].path);
    addSymbols(files[i]);
  }
  layout();
  defineLinkerSymbols();
  for (Group &group : groups)
    for (InputSection *section : group.sections)
      relocateRISCV(*this, *section);
  std::string bytes = image();
  std::ofstream out(config.output, std::ios::binary | std::ios::trunc);
  out << bytes;
  out.close();
  if (!out || chmod(config.output.c_str(), 0755) != 0)
    fatal("cannot open output file " + config.output);
}
} // namespace lld::elf
