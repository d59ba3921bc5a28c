// Blocking use of an initiator session from a thread that runs none of the provider's loops (`kbtp block`).

#pragma once

#include <memory>

#include "proto/initiator/initiator.h"

namespace kbtp::initiator {

/// Every function blocks until its answer or the deadline in ConnectOptions. One thread at a time. The
/// provider's loops must be running. Destroying it closes the session and waits for its end.
class SyncInitiator {
 public:
  [[nodiscard]] static Expected<std::unique_ptr<SyncInitiator>, ConnectError> connect(
      rdma::Provider& provider, ConnectOptions options);
  ~SyncInitiator();
  SyncInitiator(const SyncInitiator&) = delete;
  SyncInitiator& operator=(const SyncInitiator&) = delete;

  [[nodiscard]] const SessionInfo& info() const;

  /// Loads into `sink`, registered for this one operation.
  [[nodiscard]] Outcome load(std::uint64_t handle, std::span<std::byte> sink,
                             const LoadOptions& options = {});
  /// `source` is sent INLINE when it fits and `prefer_inline`, else registered for this one operation.
  [[nodiscard]] Outcome store(std::uint64_t handle, std::span<std::byte> source,
                              const StoreOptions& options = {}, bool prefer_inline = false);
  [[nodiscard]] Outcome alloc_store(std::uint64_t handle, std::span<std::byte> source,
                                    const StoreOptions& options = {}, bool prefer_inline = false);
  [[nodiscard]] Outcome free(std::uint64_t handle, std::uint16_t generation = 0);
  [[nodiscard]] Outcome probe(std::uint64_t handle);
  /// The direct modes; they need no registration.
  [[nodiscard]] Outcome direct_load(std::uint64_t handle, std::span<std::byte> sink,
                                    const DirectLoadOptions& options = {});
  [[nodiscard]] Outcome direct_alloc_store(std::uint64_t handle, Octets source,
                                           const DirectStoreOptions& options = {});

  /// Ends the session gracefully and waits; the destructor does so too.
  void close();

 private:
  class Impl;
  explicit SyncInitiator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kbtp::initiator
