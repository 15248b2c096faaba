// Small copies when objects are made.
// SPDX-License-Identifier: Apache-2.0
#include "upload.hpp"

namespace moert::gpu {

void copy_and_wait(void* device, const void* host, uint64_t bytes) {
  const Stream stream = create_stream();
  try {
    copy_to_device(stream, device, host, bytes);
    synchronize(stream);
  } catch (...) {
    destroy_stream(stream);
    throw;
  }
  destroy_stream(stream);
}

}  // namespace moert::gpu
