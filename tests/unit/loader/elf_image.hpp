// A minimal shared object made in memory, every number of which a test can change.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <elf.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <moert/abi/entry.h>

#include "loader/elf_file.hpp"

namespace moert::loader::test {

#if defined(__x86_64__)
constexpr uint16_t kThisMachine = EM_X86_64;
#else
constexpr uint16_t kThisMachine = EM_AARCH64;
#endif

template <class T>
std::string raw(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

inline std::string note_record(const std::string& owner, uint32_t type, const std::string& desc) {
  std::string text = raw(
      Elf64_Nhdr{static_cast<uint32_t>(owner.size()), static_cast<uint32_t>(desc.size()), type});
  text += owner;
  text.resize((text.size() + 3) / 4 * 4);
  text += desc;
  text.resize((text.size() + 3) / 4 * 4);
  return text;
}

inline moert_note_desc_t good_note() {
  moert_note_desc_t desc{};
  desc.desc_size = sizeof desc;
  desc.abi_major = MOERT_ABI_MAJOR;
  desc.sanitizer = MOERT_BUILD_SANITIZER;
  std::strcpy(desc.id, "org.test.image");
  std::strcpy(desc.version, "1.2.3");
  return desc;
}

// One loadable segment from offset 0 at address 0x1000, so that addresses and offsets differ.
struct Image {
  static constexpr uint64_t kBase = 0x1000;
  Elf64_Ehdr header{};
  Elf64_Phdr load{}, dynamic{}, note{};
  std::string notes;
  std::string texts = std::string("\0libfirst.so\0libsecond.so.2\0$ORIGIN:/opt/x\0", 43);
  std::vector<Elf64_Dyn> entries;

  static std::string good_notes() {
    return note_record(std::string("GNU\0", 4), 3, std::string(20, 'b')) +
           note_record(std::string("MOERT\0", 6), MOERT_NOTE_TYPE, raw(good_note()));
  }
  explicit Image(std::string note_records = good_notes()) : notes(std::move(note_records)) {
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    header.e_type = ET_DYN;
    header.e_machine = kThisMachine;
    header.e_version = EV_CURRENT;
    header.e_phoff = sizeof header;
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = 3;
    const uint64_t at_notes = sizeof header + 3 * sizeof(Elf64_Phdr);
    const uint64_t at_texts = at_notes + notes.size();
    const uint64_t at_dynamic = (at_texts + texts.size() + 7) / 8 * 8;
    entries = {entry(DT_NEEDED, 1),
               entry(DT_NEEDED, 13),
               entry(DT_RUNPATH, 28),
               entry(DT_STRTAB, kBase + at_texts),
               entry(DT_STRSZ, texts.size()),
               entry(DT_SYMTAB, kBase + at_texts),
               entry(DT_SYMENT, sizeof(Elf64_Sym)),
               entry(DT_NULL, 0)};
    note = segment(PT_NOTE, at_notes, notes.size(), 4);
    dynamic = segment(PT_DYNAMIC, at_dynamic, entries.size() * sizeof(Elf64_Dyn), 8);
    load = segment(PT_LOAD, 0, at_dynamic + dynamic.p_filesz, 0x1000);
    load.p_memsz += 64;
  }
  static Elf64_Dyn entry(int64_t tag, uint64_t value) {
    Elf64_Dyn made{};
    made.d_tag = tag;
    made.d_un.d_val = value;
    return made;
  }
  static Elf64_Phdr segment(uint32_t type, uint64_t offset, uint64_t size, uint64_t align) {
    Elf64_Phdr made{};
    made.p_type = type;
    made.p_offset = offset;
    made.p_vaddr = made.p_paddr = kBase + offset;
    made.p_filesz = made.p_memsz = size;
    made.p_align = align;
    return made;
  }
  std::string bytes() const {
    std::string text = raw(header) + raw(load) + raw(dynamic) + raw(note) + notes + texts;
    text.resize((text.size() + 7) / 8 * 8);
    for (const Elf64_Dyn& each : entries) text += raw(each);
    return text;
  }
};

// Fails the read of any byte that the reader was not entitled to ask for.
inline ByteSource source_of(const std::string& bytes) {
  return {bytes.size(), [&bytes](uint64_t offset, void* to, uint64_t size) {
            if (offset > bytes.size() || size > bytes.size() - offset) std::abort();
            std::memcpy(to, bytes.data() + offset, size);
            return true;
          }};
}

}  // namespace moert::loader::test
