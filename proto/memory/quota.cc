#include "proto/memory/quota.h"

#include <algorithm>

namespace kbtp::memory {

QuotaBook::QuotaBook(std::uint64_t blocks, std::uint64_t reserve)
    : available_(blocks - std::min(reserve, blocks)), reserve_(std::min(reserve, blocks)) {}

QuotaBook::Grant QuotaBook::open(std::uint32_t wanted) {
  const std::scoped_lock lock(mutex_);
  const auto quota = static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, available_));
  available_ -= quota;
  const OwnerId owner{next_owner_++};
  accounts_.emplace(owner, Account{quota, 0});
  return {owner, quota};
}

void QuotaBook::close(OwnerId owner) {
  const std::scoped_lock lock(mutex_);
  const auto account = accounts_.find(owner);
  if (account == accounts_.end()) return;
  available_ += account->second.quota;
  accounts_.erase(account);
}

bool QuotaBook::reserve(OwnerId owner, std::uint64_t tickets) {
  const std::scoped_lock lock(mutex_);
  const auto account = accounts_.find(owner);
  if (account == accounts_.end() || account->second.usage + tickets >= account->second.quota) return false;
  ++account->second.usage;
  return true;
}

void QuotaBook::release(OwnerId owner) {
  const std::scoped_lock lock(mutex_);
  const auto account = accounts_.find(owner);
  if (account != accounts_.end() && account->second.usage > 0) --account->second.usage;
}

std::uint32_t QuotaBook::quota(OwnerId owner) const {
  const std::scoped_lock lock(mutex_);
  const auto account = accounts_.find(owner);
  return account == accounts_.end() ? 0 : account->second.quota;
}

std::uint32_t QuotaBook::usage(OwnerId owner) const {
  const std::scoped_lock lock(mutex_);
  const auto account = accounts_.find(owner);
  return account == accounts_.end() ? 0 : account->second.usage;
}

std::uint64_t QuotaBook::available() const {
  const std::scoped_lock lock(mutex_);
  return available_;
}

}  // namespace kbtp::memory
