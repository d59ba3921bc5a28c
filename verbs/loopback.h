// The host's own atomics on a device whose atomics are not atomic with the processor's: a queue pair that is
// connected to another of the same device, so that both kinds of user stand in the device's one line
// (KBTP 3.3, G-27). For devices of InfiniBand and RoCE; iWARP devices of today have no atomics.

#pragma once

#include <map>
#include <mutex>

#include "verbs/regions.h"

namespace kbtp::verbs {

class Loopback {
 public:
  /// Fails with a sentence when the device cannot be connected to itself.
  [[nodiscard]] static Result<std::unique_ptr<Loopback>> open(const Device& device);

  /// The masked FetchAdd of base/masked_add.h on `word`, by the device alone; returns the word before. Waits
  /// for the device. Nothing when the device has failed. Any thread.
  [[nodiscard]] std::optional<std::uint64_t> fetch_add(std::uint64_t& word, std::uint64_t add,
                                                       std::uint64_t mask);

  /// Words that lie in `memory` can be counted on from here on. Fails with a sentence. Any thread.
  [[nodiscard]] Result<> expose(std::span<std::byte> memory);
  /// Once for each expose().
  void withdraw(std::span<std::byte> memory);

 private:
  struct Exposed {
    std::size_t size = 0;
    std::size_t users = 0;
    MrHandle region;
  };

  explicit Loopback(const Device& device) : device_(device) {}
  Result<> connect();
  [[nodiscard]] bool to_ready(ibv_qp& qp, ibv_qp& other, const ibv_gid& gid, int gid_index,
                              std::uint16_t lid);
  [[nodiscard]] std::optional<std::uint64_t> execute(ibv_send_wr& request);

  const Device& device_;
  std::mutex mutex_;
  PdHandle pd_;
  CqHandle queue_;
  std::optional<PinnedBuffer> result_;
  QpHandle from_;
  QpHandle to_;
  std::map<std::byte*, Exposed> exposed_;  // by first octet
  bool failed_ = false;
};

}  // namespace kbtp::verbs
