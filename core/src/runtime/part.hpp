// An object made by a candidate: its table, its self pointer, and who destroys it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "registry/registry.hpp"

namespace moert::runtime {

// Move-only owner. The candidate's library stays mapped for the life of the process, and the table is
// kept alive by `keep`.
template <class Table>
class Part {
 public:
  Part() = default;
  Part(const registry::Candidate& candidate, void* self)
      : name_(candidate.name),
        keep_(candidate.table),
        table_(registry::table_of<Table>(candidate)),
        self_(self) {}
  Part(Part&& other) noexcept
      : name_(std::move(other.name_)),
        keep_(std::move(other.keep_)),
        table_(std::exchange(other.table_, nullptr)),
        self_(std::exchange(other.self_, nullptr)) {}
  Part& operator=(Part&& other) noexcept {
    std::swap(name_, other.name_);
    std::swap(keep_, other.keep_);
    std::swap(table_, other.table_);
    std::swap(self_, other.self_);
    return *this;
  }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;
  ~Part() {
    if (self_ != nullptr) table_->destroy(self_);
  }

  explicit operator bool() const { return self_ != nullptr; }
  const std::string& name() const { return name_; }
  const Table* operator->() const { return table_; }
  const Table* table() const { return table_; }
  void* self() const { return self_; }
  // Gives the object away: whoever holds the table and self destroys it.
  void* release() { return std::exchange(self_, nullptr); }

 private:
  std::string name_;
  std::shared_ptr<const void> keep_;
  const Table* table_ = nullptr;
  void* self_ = nullptr;
};

}  // namespace moert::runtime
