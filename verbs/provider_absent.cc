// The provider of a build without rdma-core.

#include "verbs/provider.h"

namespace kbtp::verbs {

namespace {
constexpr const char* kAbsent =
    "this build has no rdma-core: install libibverbs-dev and librdmacm-dev, configure and build again";
}

bool available() { return false; }

Result<std::vector<DeviceFacts>> devices() { return failure(kAbsent); }

// NOLINTNEXTLINE(performance-unnecessary-value-param): the provider of a build with rdma-core keeps it
Result<std::unique_ptr<Verbs>> Verbs::create(VerbsOptions) { return failure(kAbsent); }

}  // namespace kbtp::verbs
