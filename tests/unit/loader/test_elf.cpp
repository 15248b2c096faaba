// The ELF reader against files that lie: every field, every length, every byte.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include <moert/error.hpp>

#include "elf_image.hpp"

namespace moert::loader {
namespace {

using test::Image;
using test::note_record;
using test::source_of;

// The problem that the reader finds, or "".
std::string problem_of(const std::string& bytes) {
  try {
    read_elf(source_of(bytes), "/x/libmoert_x.so");
    return {};
  } catch (const Error& e) {
    EXPECT_EQ(e.fault(), Fault::plugin);
    EXPECT_EQ(e.place(), "/x/libmoert_x.so");
    return e.problem();
  }
}

TEST(Elf, ReadsWhatIsThere) {
  const std::string bytes = Image().bytes();
  const ElfFile file = read_elf(source_of(bytes), "x");
  ASSERT_TRUE(file.note);
  EXPECT_EQ(file.note->size, sizeof(moert_note_desc_t));
  EXPECT_STREQ(file.note->desc.id, "org.test.image");
  EXPECT_STREQ(file.note->desc.version, "1.2.3");
  EXPECT_EQ(file.needed, (std::vector<std::string>{"libfirst.so", "libsecond.so.2"}));
  EXPECT_EQ(file.run_path, "$ORIGIN:/opt/x");
}

TEST(Elf, ANewerNoteIsCutAndAnOlderOnePadded) {
  for (const size_t size :
       {size_t{0}, size_t{3}, size_t{24}, sizeof(moert_note_desc_t), size_t{1000}}) {
    const Image image(
        note_record(std::string("MOERT\0", 6), MOERT_NOTE_TYPE, std::string(size, '\x01')));
    const std::string bytes = image.bytes();
    const ElfFile file = read_elf(source_of(bytes), "x");
    ASSERT_TRUE(file.note) << size;
    EXPECT_EQ(file.note->size, size);
    EXPECT_EQ(file.note->desc.abi_minor, size >= 12 ? 0x01010101u : 0u) << size;
  }
}

TEST(Elf, OrdinaryLibraryHasNoNote) {
  for (const auto& [owner, type] : {std::pair{std::string("MOERT\0", 6), 2u},
                                    {std::string("MOERX\0", 6), 1u},
                                    {std::string("MOERT", 5), 1u},
                                    {std::string("moert\0", 6), 1u}}) {
    const Image image(note_record(std::string("GNU\0", 4), 3, std::string(20, 'b')) +
                      note_record(owner, type, test::raw(test::good_note())));
    const std::string bytes = image.bytes();
    EXPECT_FALSE(read_elf(source_of(bytes), "x").note) << owner << " " << type;
  }
}

struct Lie {
  const char* name;
  std::function<void(Image&)> tell;
  const char* problem;
};
void PrintTo(const Lie& lie, std::ostream* out) { *out << lie.name; }
class Lies : public testing::TestWithParam<Lie> {};

TEST_P(Lies, AreFound) {
  Image image;
  GetParam().tell(image);
  const std::string problem = problem_of(image.bytes());
  EXPECT_NE(problem.find(GetParam().problem), std::string::npos) << "problem: " << problem;
  EXPECT_FALSE(problem.empty());
}

constexpr uint64_t kHuge = UINT64_MAX - 7;
uint64_t& value_of(Image& image, int64_t tag) {
  for (Elf64_Dyn& entry : image.entries)
    if (entry.d_tag == tag) return entry.d_un.d_val;
  std::abort();
}

INSTANTIATE_TEST_SUITE_P(
    Header, Lies,
    testing::Values(
        Lie{"Magic", [](Image& i) { i.header.e_ident[1] = 'e'; }, "not an ELF file"},
        Lie{"Version", [](Image& i) { i.header.e_version = 2; }, "version of ELF"},
        Lie{"EntrySize", [](Image& i) { i.header.e_phentsize = 32; }, "valid size and number"},
        Lie{"NoSegments", [](Image& i) { i.header.e_phnum = 0; }, "valid size and number"},
        Lie{"ExtendedCount", [](Image& i) { i.header.e_phnum = PN_XNUM; }, "valid size and number"},
        Lie{"ManySegments", [](Image& i) { i.header.e_phnum = 256; }, "program headers lie beyond"},
        Lie{"TooManySegments", [](Image& i) { i.header.e_phnum = 257; },
            "it has 257 program headers, more than 256"},
        Lie{"TableWraps", [](Image& i) { i.header.e_phoff = kHuge; },
            "program headers lie beyond"}),
    [](const auto& test_info) { return test_info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Segments, Lies,
    testing::Values(
        Lie{"LoadBeyondEnd", [](Image& i) { i.load.p_filesz += 4096, i.load.p_memsz += 8192; },
            "cut short"},
        Lie{"LoadSizeWraps", [](Image& i) { i.load.p_filesz = i.load.p_memsz = kHuge; },
            "cut short"},
        Lie{"LoadOffsetWraps", [](Image& i) { i.load.p_offset = kHuge; }, "cut short"},
        Lie{"MemoryBelowFile", [](Image& i) { i.load.p_memsz = 8; }, "impossible addresses"},
        Lie{"MemoryWraps", [](Image& i) { i.load.p_memsz = kHuge; }, "impossible addresses"},
        Lie{"AddressWraps", [](Image& i) { i.load.p_vaddr = kHuge; }, "impossible addresses"},
        Lie{"OddAlignment", [](Image& i) { i.load.p_align = 3000; }, "impossible alignment"},
        Lie{"UnevenAddress", [](Image& i) { i.load.p_vaddr += 8; }, "impossible alignment"},
        Lie{"Overlap", [](Image& i) { i.note = i.load; }, "impossible addresses"},
        Lie{"NoLoad", [](Image& i) { i.load.p_type = PT_NULL; }, "no loadable segment"},
        Lie{"NoDynamic", [](Image& i) { i.dynamic.p_type = PT_NULL; }, "no dynamic table"},
        Lie{"DynamicElsewhere", [](Image& i) { i.dynamic.p_vaddr = 0x900000; },
            "outside of what is loaded"},
        Lie{"DynamicWraps", [](Image& i) { i.dynamic.p_filesz = kHuge; },
            "outside of what is loaded"},
        Lie{"EmptyDynamicElsewhere",
            [](Image& i) { i.dynamic.p_vaddr = 0x900000, i.dynamic.p_filesz = 0; },
            "outside of what is loaded"},
        Lie{"TlsElsewhere", [](Image& i) { i.note.p_type = PT_TLS, i.note.p_vaddr = 7; },
            "outside of what is loaded"}),
    [](const auto& test_info) { return test_info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Notes, Lies,
    testing::Values(Lie{"BeyondEnd", [](Image& i) { i.note.p_filesz = 1u << 30; },
                        "a note lies beyond"},
                    Lie{"Wraps", [](Image& i) { i.note.p_offset = kHuge; }, "a note lies beyond"},
                    Lie{"OwnerWraps", [](Image& i) { std::memset(&i.notes[0], 0xff, 4); },
                        "longer than its segment"},
                    Lie{"DescriptorWraps", [](Image& i) { std::memset(&i.notes[4], 0xff, 4); },
                        "longer than its segment"},
                    Lie{"Two",
                        [](Image& i) {
                          i = Image(note_record(std::string("MOERT\0", 6), 1, "a") +
                                    note_record(std::string("MOERT\0", 6), 1, "b"));
                        },
                        "two MoERT notes"}),
    [](const auto& test_info) { return test_info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Dynamic, Lies,
    testing::Values(
        Lie{"NoEnd", [](Image& i) { i.entries.back().d_tag = DT_SONAME; }, "has no end"},
        Lie{"TextsElsewhere", [](Image& i) { value_of(i, DT_STRTAB) = 0x900000; },
            "points outside"},
        Lie{"TextsTooLong", [](Image& i) { value_of(i, DT_STRSZ) = kHuge; }, "points outside"},
        Lie{"SymbolsElsewhere", [](Image& i) { value_of(i, DT_SYMTAB) = kHuge; }, "points outside"},
        Lie{"SymbolSize", [](Image& i) { value_of(i, DT_SYMENT) = 16; }, "unknown size"},
        Lie{"NoTexts", [](Image& i) { i.entries[3] = Image::entry(DT_DEBUG, 0); },
            "no table of symbols"},
        Lie{"NameBeyondTexts", [](Image& i) { i.entries[0].d_un.d_val = 1000; },
            "outside of its string table"},
        Lie{"NameWraps", [](Image& i) { i.entries[0].d_un.d_val = kHuge; },
            "outside of its string table"},
        Lie{"NameWithoutEnd", [](Image& i) { value_of(i, DT_STRSZ) = 10; }, "a name has no end"},
        Lie{"RelocationsElsewhere",
            [](Image& i) { i.entries[2] = Image::entry(DT_RELA, 0x7fff0000); }, "points outside"},
        Lie{"ConstructorsElsewhere",
            [](Image& i) { i.entries[2] = Image::entry(DT_INIT_ARRAY, 16); }, "points outside"}),
    [](const auto& test_info) { return test_info.param.name; });

// Segments that name the same bytes cost a read each, so their sum is what counts.
TEST(Elf, NotesThatShareBytesCountEachTime) {
  for (const auto& [segments, bytes_each] :
       {std::pair{200, 5243u}, {200, 5242u}, {253, 1u << 20}}) {
    Image image;
    image.header.e_phnum = static_cast<uint16_t>(3 + segments);
    image.header.e_phoff = (image.bytes().size() + 7) / 8 * 8 + (1u << 20);
    image.note.p_type = PT_NULL;
    std::string bytes = image.bytes();
    const uint64_t at_notes = (bytes.size() + 7) / 8 * 8;
    bytes.resize(image.header.e_phoff);
    bytes += test::raw(image.load) + test::raw(image.dynamic) + test::raw(image.note);
    for (int i = 0; i < segments; ++i)
      bytes += test::raw(Image::segment(PT_NOTE, at_notes, bytes_each, 4));
    uint64_t asked = 0;
    const ByteSource plain = source_of(bytes);
    const ByteSource counting{plain.size, [&](uint64_t offset, void* to, uint64_t size) {
                                asked += size;
                                return plain.read(offset, to, size);
                              }};
    const bool fits = uint64_t{bytes_each} * static_cast<uint64_t>(segments) <= (1u << 20);
    std::string problem;
    try {
      read_elf(counting, "x");
    } catch (const Error& e) {
      problem = e.problem();
    }
    EXPECT_EQ(problem, fits ? "" : "damaged: notes of more than 1 MiB") << bytes_each;
    EXPECT_LT(asked, (1u << 20) + 65536) << bytes_each;
  }
}

TEST(Elf, EveryLength) {
  const std::string bytes = Image().bytes();
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(problem_of(bytes.substr(0, size)).empty()) << "cut at " << size;
  EXPECT_EQ(problem_of(bytes), "");
}

// No value of any one byte makes the reader ask for bytes outside of the file (source_of aborts).
TEST(Elf, EveryByteEveryValue) {
  const std::string good = Image().bytes();
  std::string bytes = good;
  size_t refused = 0;
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      bytes[at] = static_cast<char>(value);
      refused += problem_of(bytes).empty() ? 0 : 1;
    }
    bytes[at] = good[at];
  }
  EXPECT_GT(refused, good.size()) << "hardly a change was noticed";
}

TEST(Elf, ManyBytesAtOnce) {
  const std::string good = Image().bytes();
  size_t refused = 0;
  for (uint32_t seed = 0; seed < 20000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    std::string bytes = good;
    for (uint32_t i = 0, n = 1 + random() % 12; i < n; ++i) {
      // Whole words with values at the edges find more than single bytes do.
      const uint64_t edges[] = {
          0, 1, 0x7fffffffffffffff, UINT64_MAX, 0xffffffff, bytes.size(), random()};
      const size_t at = random() % (bytes.size() / 8) * 8;
      std::memcpy(&bytes[at], &edges[random() % 7], 8);
    }
    refused += problem_of(bytes).empty() ? 0 : 1;
  }
  EXPECT_GT(refused, 10000u) << "hardly a change was noticed";
}

TEST(Elf, UnreadableBytesAreAnError) {
  const std::string good = Image().bytes();
  ByteSource source = source_of(good);
  for (int allowed = 0; allowed < 6; ++allowed) {
    int reads = 0;
    const ByteSource failing{source.size, [&](uint64_t offset, void* to, uint64_t size) {
                               return reads++ < allowed && source.read(offset, to, size);
                             }};
    EXPECT_THROW(read_elf(failing, "x"), Error) << allowed;
  }
}

}  // namespace
}  // namespace moert::loader
