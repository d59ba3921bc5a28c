#include "proto/memory/mapping.h"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <sys/mman.h>
#include <utility>

namespace kbtp::memory {

Result<Mapping> Mapping::create(std::uint64_t size, const char* what) {
  void* address =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) {
    return failure(fmt::format("cannot map {} octets for the {}: {}", size, what, std::strerror(errno)));
  }
  return Mapping({static_cast<std::byte*>(address), size});
}

Mapping::~Mapping() {
  if (!octets_.empty()) ::munmap(octets_.data(), octets_.size());
}

Mapping::Mapping(Mapping&& other) noexcept : octets_(std::exchange(other.octets_, {})) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(octets_, other.octets_);
  return *this;
}

}  // namespace kbtp::memory
