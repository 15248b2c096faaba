/* Prints sizes, offsets and constants of everything in the ABI headers, in the form of layout.txt.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The list of names is made from the headers by list_members. That it misses no member follows from
 * the headers' own rule of having no padding: members must touch each other and fill their struct. */
#include <stddef.h>
#include <stdio.h>

#define LAYOUT_INCLUDES
#include "layout_list.inc"
#undef LAYOUT_INCLUDES

static size_t next_offset;
static int holes;

static void check(const char* name, const char* member, size_t offset) {
  if (offset != next_offset) {
    fprintf(stderr, "%s: %s is at %zu, but the member before it ends at %zu\n", name, member,
            offset, next_offset);
    holes = 1;
  }
}

#define HEADER(name) printf("# %s\n", name);
#define MACRO(name, value) printf("%s = %s\n", name, value);
#define CONSTANT(name) printf("%s = %lld\n", #name, (long long)name);
#define STRUCT(name)                              \
  printf("%s %zu\n", #name, sizeof(struct name)); \
  next_offset = 0;
#define MEMBER(name, member, type)                                             \
  printf("%s.%s %zu %zu  %s\n", #name, #member, offsetof(struct name, member), \
         sizeof(((struct name*)0)->member), type);                             \
  check(#name, #member, offsetof(struct name, member));                        \
  next_offset = offsetof(struct name, member) + sizeof(((struct name*)0)->member);
#define END(name) check(#name, "the end", sizeof(struct name));

int main(void) {
#include "layout_list.inc"
  return holes;
}
