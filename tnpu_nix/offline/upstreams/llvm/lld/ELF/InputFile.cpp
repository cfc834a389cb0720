#include "lld/ELF/Linker.h"
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

namespace lld::elf {
std::string InputSection::where(uint64_t offset) const {
  std::ostringstream text;
  text << file->path << ":(" << name << "+0x" << std::hex << offset << ")";
  return text.str();
}

namespace {
struct Reader {
  const std::string &path, &bytes;

  template <typename T> std::vector<T> array(uint64_t offset, uint64_t count) const {
    if (offset > bytes.size() || count > (bytes.size() - offset) / sizeof(T))
      fatal(path + ": file is truncated");
    std::vector<T> result(count);
    std::memcpy(result.data(), bytes.data() + offset, count * sizeof(T));
    return result;
  }
  std::string content(const Elf64_Shdr &header) const {
    if (header.sh_type == SHT_NOBITS)
      return "";
    std::vector<char> data = array<char>(header.sh_offset, header.sh_size);
    return std::string(data.begin(), data.end());
  }
};
} // namespace

static Elf64_Ehdr checkHeader(const std::string &path, const Reader &reader) {
  if (reader.bytes.compare(0, 4, ELFMAG) != 0)
    fatal(path + ": unknown file type (the miniature links relocatable objects only)");
  Elf64_Ehdr elf = reader.array<Elf64_Ehdr>(0, 1)[0];
  if (elf.e_ident[EI_CLASS] != ELFCLASS64 || elf.e_machine != EM_RISCV)
    fatal(path + " is incompatible with elf64lriscv");
  if (elf.e_type != ET_REL)
    fatal(path + ": is not a relocatable object");
  return elf;
}

void readObject(const std::string &path, InputFile &file) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream)
    fatal("cannot open " + path + ": No such file or directory");
  std::string bytes(std::istreambuf_iterator<char>(stream), {});
  Reader reader{path, bytes};
  Elf64_Ehdr elf = checkHeader(path, reader);
  file.path = path;
  file.flags = elf.e_flags;
  std::vector<Elf64_Shdr> headers = reader.array<Elf64_Shdr>(elf.e_shoff, elf.e_shnum);
  std::string names = reader.content(headers.at(elf.e_shstrndx));
  for (const Elf64_Shdr &header : headers) {
    InputSection section;
    section.file = &file;
    section.name = names.c_str() + header.sh_name;
    section.header = header;
    section.data = reader.content(header);
    file.sections.push_back(section);
    if (header.sh_type == SHT_SYMTAB) {
      file.symbols = reader.array<Elf64_Sym>(header.sh_offset, header.sh_size / sizeof(Elf64_Sym));
      file.strings = reader.content(headers.at(header.sh_link));
    }
  }
  for (const Elf64_Shdr &header : headers)
    if (header.sh_type == SHT_RELA)
      file.sections.at(header.sh_info).relocations =
          reader.array<Elf64_Rela>(header.sh_offset, header.sh_size / sizeof(Elf64_Rela));
}
} // namespace lld::elf
