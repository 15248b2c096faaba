// Faults of capturers: see faulty.cpp.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <map>
#include <moert/sdk/tensor.hpp>
#include <utility>
#include <vector>

#include "faulty.hpp"

namespace moert::faulty {

const moert_capturer_t* capturer;
moert_capturer_t own_capturer;

namespace {

moert_code_t forgets_drops(void*, int64_t, int64_t, moert_error_t*) { return MOERT_OK; }

moert_code_t forgets_commits(void*, int64_t, int64_t, moert_error_t*) { return MOERT_OK; }

moert_code_t begin_with(void* self, const moert_capture_step_t* step, uint32_t flags,
                        moert_error_t* e) {
  moert_capture_step_t copy = *step;
  copy.flags = (copy.flags & ~uint32_t{MOERT_CAPTURE_STEP_COMMIT}) | flags;
  return capturer->begin(self, &copy, e);
}
moert_code_t commits_at_once(void* self, const moert_capture_step_t* step, moert_error_t* e) {
  return begin_with(self, step, MOERT_CAPTURE_STEP_COMMIT, e);
}
moert_code_t never_commits_at_end(void* self, const moert_capture_step_t* step, moert_error_t* e) {
  return begin_with(self, step, 0, e);
}

moert_code_t ends_when_told_to_abort(void* self, moert_error_t* e) {
  return capturer->end(self, e);
}

// Rows that were dropped after they had been committed read as absent.
std::map<std::pair<void*, int64_t>, int64_t> dropped;  // object and sequence -> from position
moert_code_t remembers_drops(void* self, int64_t sequence, int64_t position, moert_error_t* e) {
  dropped[{self, sequence}] = position;
  return capturer->drop(self, sequence, position, e);
}
// Another object may come to live at its address.
void forgets_drops(void* self) {
  std::erase_if(dropped, [self](const auto& entry) { return entry.first.first == self; });
  capturer->destroy(self);
}
moert_code_t hides_dropped(void* self, moert_capture_rows_t* rows, moert_error_t* e) {
  const moert_code_t code = capturer->read(self, rows, e);
  for (int64_t r = 0; code == MOERT_OK && rows->sequences != nullptr && r < rows->written; ++r) {
    const auto found = dropped.find({self, rows->sequences[r]});
    if (found != dropped.end() && rows->sequences[r] == 2 && rows->positions[r] >= found->second)
      rows->present[r] = 0;
  }
  return code;
}

// The rows before the one that is refused stay.
moert_code_t keeps_what_it_refused(void* self, const moert_capture_record_t* record,
                                   moert_error_t* e) {
  const moert_code_t code = capturer->record(self, record, e);
  if (code != MOERT_INVALID_ARGUMENT || record->layer != 1) return code;
  const auto* first = static_cast<const int32_t*>(record->ids->data);
  std::vector<int32_t> ids(first, first + element_count(*record->ids));
  ids.back() = 0;
  moert_tensor_t changed = *record->ids;
  changed.data = ids.data();
  moert_capture_record_t copy = *record;
  copy.ids = &changed;
  capturer->record(self, &copy, nullptr);
  return code;
}

moert_code_t counts_pending_rows(void* self, moert_capture_counts_t* out, moert_error_t* e) {
  const moert_code_t code = capturer->counts(self, out, e);
  out->rows += out->pending;
  return code;
}

// Of two rows of one token the first one's ids are given for both.
moert_code_t keeps_the_first_of_two(void* self, moert_capture_rows_t* rows, moert_error_t* e) {
  const moert_code_t code = capturer->read(self, rows, e);
  for (int64_t r = 0; code == MOERT_OK && rows->sequences != nullptr && r < rows->written; ++r)
    for (int64_t before = 0; before < r; ++before)
      if (rows->sequences[before] == rows->sequences[r] &&
          rows->positions[before] == rows->positions[r] && rows->layer == 0)
        std::memcpy(rows->ids + r * 2, rows->ids + before * 2, 2 * sizeof(int32_t));
  return code;
}

// 255 stands for "nothing": the mistake that an unsigned byte with a sentinel makes.
moert_code_t expert_255_is_absent(void* self, moert_capture_rows_t* rows, moert_error_t* e) {
  const moert_code_t code = capturer->read(self, rows, e);
  for (int64_t r = 0; code == MOERT_OK && rows->layer == 1 && r < rows->written; ++r)
    if (rows->present[r] != 0 && rows->ids[r * 8] == 255) rows->present[r] = 0;
  return code;
}

}  // namespace

bool spoil_capturer(std::string_view fault) {
  if (fault == "forgets_drops")
    own_capturer.drop = forgets_drops;
  else if (fault == "forgets_commits")
    own_capturer.commit = forgets_commits;
  else if (fault == "commits_at_once")
    own_capturer.begin = commits_at_once;
  else if (fault == "never_commits_at_end")
    own_capturer.begin = never_commits_at_end;
  else if (fault == "ends_when_told_to_abort")
    own_capturer.abort = ends_when_told_to_abort;
  else if (fault == "keeps_what_it_refused")
    own_capturer.record = keeps_what_it_refused;
  else if (fault == "counts_pending_rows")
    own_capturer.counts = counts_pending_rows;
  else if (fault == "keeps_the_first_of_two")
    own_capturer.read = keeps_the_first_of_two;
  else if (fault == "drops_what_was_committed")
    own_capturer.drop = remembers_drops, own_capturer.read = hides_dropped,
    own_capturer.destroy = forgets_drops;
  else if (fault == "expert_255_is_absent")
    own_capturer.read = expert_255_is_absent;
  else
    return false;
  return true;
}

}  // namespace moert::faulty
