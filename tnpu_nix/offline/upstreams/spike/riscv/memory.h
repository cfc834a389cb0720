// Sparse memory of pages; an address that nobody mapped is a fault.
#pragma once
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <unordered_map>

struct fault_t {
  const char *access; // "load", "store", "fetch"
  uint64_t address;
};

class memory_t {
public:
  static constexpr uint64_t page_size = 4096;

  void map(uint64_t address, uint64_t size) {
    for (uint64_t page = address / page_size; page * page_size < address + size; ++page)
      pages[page];
  }
  template <typename T> T load(uint64_t address, const char *access = "load") {
    T value;
    auto *bytes = reinterpret_cast<uint8_t *>(&value);
    for (size_t i = 0; i < sizeof(T); ++i)
      bytes[i] = byte(address + i, access);
    return value;
  }
  template <typename T> void store(uint64_t address, T value) {
    auto *bytes = reinterpret_cast<const uint8_t *>(&value);
    for (size_t i = 0; i < sizeof(T); ++i)
      byte(address + i, "store") = bytes[i];
  }
  void write(uint64_t address, const std::string &bytes) {
    for (size_t i = 0; i < bytes.size(); ++i)
      store<uint8_t>(address + i, bytes[i]);
  }

private:
  uint8_t &byte(uint64_t address, const char *access) {
    uint64_t page = address / page_size;
    if (page != last || !last_page) {
      auto found = pages.find(page);
      if (found == pages.end())
        throw fault_t{access, address};
      last = page;
      last_page = &found->second;
    }
    return (*last_page)[address % page_size];
  }
  std::unordered_map<uint64_t, std::array<uint8_t, page_size>> pages;
  uint64_t last = 0;
  std::array<uint8_t, page_size> *last_page = nullptr;
};
