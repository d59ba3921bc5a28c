// The handlers of sections 6.1 to 6.4, and of BIND (6.6). Internal to proto/target.

#pragma once

#include <cstdint>
#include <optional>

#include "proto/target/operation.h"

namespace kbtp::target {

/// KBTP 6.1 Block Load.
class LoadOperation final : public Operation {
 public:
  using Operation::Operation;

 protected:
  void run() override;
};

/// KBTP 6.2 Block Mapped Store.
class StoreOperation final : public Operation {
 public:
  using Operation::Operation;
  void on_read(rdma::WorkStatus status) override;

 protected:
  void run() override;

 private:
  [[nodiscard]] const wire::StoreBody& body() const { return std::get<wire::Store>(request_).body; }
  void data_is_in_place();
};

/// KBTP 6.3 Block Unmapped Store.
class AllocStoreOperation final : public Operation {
 public:
  using Operation::Operation;
  void on_read(rdma::WorkStatus status) override;
  void on_session_closed() override;

 protected:
  void run() override;

 private:
  [[nodiscard]] const wire::StoreBody& body() const { return std::get<wire::AllocStore>(request_).body; }
  void allocate();
  void allocated(std::uint64_t block_offset);
  void starved();
  void data_is_in_place();
  void roll_back();

  std::optional<std::uint32_t> waiting_ticket_;  // taken, its block not yet there
  std::optional<std::uint64_t> block_offset_;    // taken and not yet bound
  rdma::TimerId timer_{};
};

/// KBTP 6.4 Block Free.
class FreeOperation final : public Operation {
 public:
  using Operation::Operation;

 protected:
  void run() override;

 private:
  void wait_for_slot(std::uint16_t generation);
};

/// KBTP 6.6: BIND.
class BindOperation final : public Operation {
 public:
  using Operation::Operation;

 protected:
  void run() override;
};

/// The entry update and the block's way back, for FREE and for ranges that end with their session (G-24).
/// Returns the entry as it now stands.
wire::TableEntry unbind(Core& core, std::uint64_t handle, const wire::TableEntry& entry, bool scrub);

}  // namespace kbtp::target
