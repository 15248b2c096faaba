// Bounds-checked reading of ELF headers, notes and the dynamic table.
// SPDX-License-Identifier: Apache-2.0
#include "loader/elf_file.hpp"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include <moert/error.hpp>

namespace moert::loader {
namespace fs = std::filesystem;

namespace {

#if defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kMachine = EM_AARCH64;
#else
#error "MoERT runs on x86-64 and aarch64"
#endif

// No address space is larger; keeps sums of addresses and sizes far from overflow.
constexpr uint64_t kAddressEnd = uint64_t{1} << 56;
constexpr uint16_t kSegments = 256;           // linkers write some ten
constexpr uint64_t kNoteBytes = 1u << 20;     // of all note segments together: they may overlap
constexpr uint64_t kDynamicBytes = 1u << 20;  // 65,536 entries
constexpr uint64_t kNameBytes = 4096;         // longest DT_NEEDED or run path
constexpr size_t kNeeded = 4096;

std::string machine_name(uint16_t machine) {
  switch (machine) {
    case EM_X86_64: return "x86-64";
    case EM_AARCH64: return "aarch64";
    case EM_386: return "i386";
    case EM_PPC64: return "ppc64";
    case EM_RISCV: return "riscv";
    default: return "machine number " + std::to_string(machine);
  }
}

class Parser {
 public:
  Parser(const ByteSource& bytes, const fs::path& path) : bytes_(bytes), path_(path) {}

  ElfFile parse() {
    read_header();
    read_segments();
    check_loads();
    for (const Elf64_Phdr& segment : segments_)
      if (segment.p_type == PT_NOTE) read_notes(segment);
    read_dynamic();
    return std::move(result_);
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw Error(Fault::plugin, problem, path_.string(), "install the library again");
  }
  bool inside(uint64_t offset, uint64_t size) const {
    return offset <= bytes_.size && size <= bytes_.size - offset;
  }
  void read(uint64_t offset, void* to, uint64_t size, const char* what) const {
    if (!inside(offset, size)) fail(std::string("cut short: ") + what + " lies beyond its end");
    if (size != 0 && !bytes_.read(offset, to, size)) fail(std::string("cannot read ") + what);
  }

  void read_header() {
    if (bytes_.size == 0) fail("the file is empty");
    unsigned char ident[EI_NIDENT] = {};
    read(0, ident, std::min<uint64_t>(bytes_.size, sizeof ident), "the ELF header");
    if (std::memcmp(ident, ELFMAG, SELFMAG) != 0) fail("not an ELF file");
    if (ident[EI_CLASS] != ELFCLASS64) fail("not a 64-bit ELF file");
    if (ident[EI_DATA] != ELFDATA2LSB) fail("not a little-endian ELF file");
    read(0, &header_, sizeof header_, "the ELF header");
    if (header_.e_machine != kMachine)
      fail("built for " + machine_name(header_.e_machine) + ", this machine is " +
           machine_name(kMachine));
    if (header_.e_type != ET_DYN) fail("an ELF file, but not a shared library");
    if (header_.e_ident[EI_VERSION] != EV_CURRENT || header_.e_version != EV_CURRENT)
      fail("an unknown version of ELF");
  }

  void read_segments() {
    if (header_.e_phentsize != sizeof(Elf64_Phdr) || header_.e_phnum == 0 ||
        header_.e_phnum == PN_XNUM)
      fail("damaged: its program headers have no valid size and number");
    if (header_.e_phnum > kSegments)
      fail("damaged: it has " + std::to_string(header_.e_phnum) + " program headers, more than " +
           std::to_string(kSegments));
    const uint64_t size = uint64_t{header_.e_phnum} * sizeof(Elf64_Phdr);
    if (!inside(header_.e_phoff, size)) fail("cut short: its program headers lie beyond its end");
    segments_.resize(header_.e_phnum);
    read(header_.e_phoff, segments_.data(), size, "the program headers");
  }

  // Loadable segments lie inside the file, rise in address and do not overlap; what else the dynamic
  // linker touches lies inside them.
  void check_loads() {
    uint64_t end = 0;
    for (const Elf64_Phdr& load : segments_) {
      if (load.p_type != PT_LOAD) continue;
      if (!inside(load.p_offset, load.p_filesz))
        fail("cut short: a loadable segment lies beyond its end");
      if (load.p_memsz < load.p_filesz || load.p_vaddr >= kAddressEnd ||
          load.p_memsz >= kAddressEnd || load.p_vaddr < end)
        fail("damaged: loadable segments have impossible addresses or sizes");
      if (load.p_align > 1 && (!std::has_single_bit(load.p_align) ||
                               ((load.p_vaddr - load.p_offset) & (load.p_align - 1)) != 0))
        fail("damaged: a loadable segment has an impossible alignment");
      end = load.p_vaddr + load.p_memsz;
    }
    if (end == 0) fail("damaged: it has no loadable segment");
    for (const Elf64_Phdr& segment : segments_) {
      const bool used = segment.p_type == PT_DYNAMIC || segment.p_type == PT_TLS ||
                        segment.p_type == PT_GNU_RELRO;
      if (used && !file_offset(segment.p_vaddr, segment.p_filesz) &&
          (segment.p_filesz != 0 || segment.p_type == PT_DYNAMIC))
        fail("damaged: a segment points outside of what is loaded");
    }
  }

  // Where [address, address + size) of the loaded image comes from in the file, if it does.
  std::optional<uint64_t> file_offset(uint64_t address, uint64_t size) const {
    for (const Elf64_Phdr& load : segments_) {
      if (load.p_type != PT_LOAD || address < load.p_vaddr) continue;
      const uint64_t from = address - load.p_vaddr;
      if (from <= load.p_filesz && size <= load.p_filesz - from) return load.p_offset + from;
    }
    return std::nullopt;
  }

  void read_notes(const Elf64_Phdr& segment) {
    if (!inside(segment.p_offset, segment.p_filesz)) fail("cut short: a note lies beyond its end");
    if (segment.p_filesz > kNoteBytes - note_bytes_) fail("damaged: notes of more than 1 MiB");
    note_bytes_ += segment.p_filesz;
    std::vector<char> notes(segment.p_filesz);
    read(segment.p_offset, notes.data(), notes.size(), "a note");
    // Owner and descriptor are padded to the segment's alignment.
    const uint64_t align = segment.p_align == 8 ? 8 : 4;
    const auto padded = [&](uint64_t n) { return (n + align - 1) / align * align; };
    uint64_t at = 0;
    while (notes.size() - at >= sizeof(Elf64_Nhdr)) {
      Elf64_Nhdr head;
      std::memcpy(&head, &notes[at], sizeof head);
      const uint64_t owner = at + sizeof head;
      const uint64_t desc = at + padded(sizeof head + uint64_t{head.n_namesz});
      if (desc > notes.size() || head.n_descsz > notes.size() - desc)
        fail("damaged: a note is longer than its segment");
      constexpr std::string_view kOwner(MOERT_NOTE_OWNER, sizeof MOERT_NOTE_OWNER);
      if (head.n_type == MOERT_NOTE_TYPE &&
          std::string_view(notes.data() + owner, head.n_namesz) == kOwner)
        take_note(notes.data() + desc, head.n_descsz);
      at = std::min<uint64_t>(padded(desc + head.n_descsz), notes.size());
    }
  }

  void take_note(const char* desc, uint32_t size) {
    if (result_.note) fail("damaged: it has two MoERT notes");
    Note note;
    note.size = size;
    std::memcpy(&note.desc, desc, std::min<size_t>(size, sizeof note.desc));
    result_.note = note;
  }

  void read_dynamic() {
    const auto found = std::find_if(segments_.begin(), segments_.end(),
                                    [](const Elf64_Phdr& s) { return s.p_type == PT_DYNAMIC; });
    if (found == segments_.end()) fail("damaged: it has no dynamic table");
    if (found->p_filesz > kDynamicBytes) fail("damaged: a dynamic table of more than 1 MiB");
    // The linker reads the table from memory, so the place in memory counts, not p_offset.
    const uint64_t offset = *file_offset(found->p_vaddr, found->p_filesz);
    dynamic_.resize(found->p_filesz / sizeof(Elf64_Dyn));
    read(offset, dynamic_.data(), dynamic_.size() * sizeof(Elf64_Dyn), "the dynamic table");
    const auto end = std::find_if(dynamic_.begin(), dynamic_.end(),
                                  [](const Elf64_Dyn& d) { return d.d_tag == DT_NULL; });
    if (end == dynamic_.end()) fail("damaged: its dynamic table has no end");
    dynamic_.erase(end, dynamic_.end());
    check_dynamic();
    texts_size_ = value(DT_STRSZ).value_or(0);
    texts_ = file_offset(*value(DT_STRTAB), texts_size_).value();
    for (const Elf64_Dyn& entry : dynamic_) {
      if (entry.d_tag != DT_NEEDED) continue;
      if (result_.needed.size() == kNeeded) fail("damaged: it needs more than 4096 libraries");
      result_.needed.push_back(text_at(entry.d_un.d_val));
    }
    if (const auto run = value(DT_RUNPATH) ? value(DT_RUNPATH) : value(DT_RPATH))
      result_.run_path = text_at(*run);
  }

  std::optional<uint64_t> value(int64_t tag) const {
    for (const Elf64_Dyn& entry : dynamic_)
      if (entry.d_tag == tag) return entry.d_un.d_val;
    return std::nullopt;
  }

  // The tables that the dynamic linker follows without asking, and sizes that it asserts.
  void check_dynamic() const {
    struct Table {
      int64_t address, size;
    };
    constexpr Table kTables[] = {{DT_STRTAB, DT_STRSZ},
                                 {DT_RELA, DT_RELASZ},
                                 {DT_JMPREL, DT_PLTRELSZ},
                                 {DT_INIT_ARRAY, DT_INIT_ARRAYSZ},
                                 {DT_FINI_ARRAY, DT_FINI_ARRAYSZ},
                                 {DT_SYMTAB, DT_NULL},
                                 {DT_GNU_HASH, DT_NULL},
                                 {DT_HASH, DT_NULL},
                                 {DT_VERSYM, DT_NULL},
                                 {DT_VERNEED, DT_NULL},
                                 {DT_VERDEF, DT_NULL}};
    for (const Table& table : kTables) {
      const auto address = value(table.address);
      if (address && !file_offset(*address, value(table.size).value_or(1)))
        fail("damaged: its dynamic table points outside of what is loaded");
    }
    struct Number {
      int64_t tag;
      uint64_t value;
    };
    constexpr Number kNumbers[] = {
        {DT_SYMENT, sizeof(Elf64_Sym)}, {DT_RELAENT, sizeof(Elf64_Rela)}, {DT_PLTREL, DT_RELA}};
    for (const Number& number : kNumbers)
      if (value(number.tag).value_or(number.value) != number.value)
        fail("damaged: its dynamic table has entries of an unknown size");
    if (!value(DT_STRTAB) || !value(DT_SYMTAB)) fail("damaged: it has no table of symbols");
  }

  std::string text_at(uint64_t at) const {
    if (at >= texts_size_) fail("damaged: a name lies outside of its string table");
    std::string text(std::min(texts_size_ - at, kNameBytes), '\0');
    read(texts_ + at, text.data(), text.size(), "a name");
    const size_t end = text.find('\0');
    if (end == std::string::npos) fail("damaged: a name has no end");
    text.resize(end);
    return text;
  }

  const ByteSource& bytes_;
  const fs::path& path_;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Phdr> segments_;
  std::vector<Elf64_Dyn> dynamic_;
  uint64_t note_bytes_ = 0;              // read so far
  uint64_t texts_ = 0, texts_size_ = 0;  // the string table's place in the file
  ElfFile result_;
};

[[noreturn]] void fail_open(const fs::path& path, const std::string& problem) {
  throw Error(Fault::plugin, problem, path.string(), "check the path and its permissions");
}

std::string kind_of_file(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a named pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device file";
  return "not a regular file";
}

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

bool read_all(int fd, uint64_t offset, void* to, uint64_t bytes) {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t n = ::pread(fd, at, bytes, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    offset += static_cast<uint64_t>(n);
    bytes -= static_cast<uint64_t>(n);
  }
  return true;
}

}  // namespace

ElfFile read_elf(const ByteSource& bytes, const fs::path& path) {
  return Parser(bytes, path).parse();
}

ElfFile read_elf(const fs::path& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0)
    fail_open(path, std::string("cannot open: ") + std::strerror(errno));
  // Opening a device can have effects, so its kind is looked at first; O_NONBLOCK is for the race.
  if (!S_ISREG(status.st_mode))
    fail_open(path, "not a library but " + kind_of_file(status.st_mode));
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
  if (file.fd < 0) fail_open(path, std::string("cannot open: ") + std::strerror(errno));
  if (::fstat(file.fd, &status) != 0 || !S_ISREG(status.st_mode))
    fail_open(path, "not a library but " + kind_of_file(status.st_mode));
  const ByteSource bytes{static_cast<uint64_t>(status.st_size),
                         [&](uint64_t offset, void* to, uint64_t size) {
                           return read_all(file.fd, offset, to, size);
                         }};
  return read_elf(bytes, path);
}

}  // namespace moert::loader
