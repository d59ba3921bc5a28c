#include "base/address.h"

#include <gtest/gtest.h>

namespace kbtp {
namespace {

TEST(Endpoint, ReadsNamesAndAddresses) {
  const auto v4 = Endpoint::parse("127.0.0.1:7420");
  ASSERT_TRUE(v4);
  EXPECT_EQ(v4->host, "127.0.0.1");
  EXPECT_EQ(v4->port, 7420);
  const auto v6 = Endpoint::parse("[::1]:0");
  ASSERT_TRUE(v6);
  EXPECT_EQ(v6->host, "::1");
  EXPECT_EQ(v6->to_string(), "[::1]:0");
}

TEST(Endpoint, SaysWhatIsWrong) {
  for (const char* text :
       {"", "host", "::1:7420", "[::1]", "[::1]7420", "[::1:7420", "host:", "host:65536", "host:7x"}) {
    const auto endpoint = Endpoint::parse(text);
    ASSERT_FALSE(endpoint) << text;
    EXPECT_NE(endpoint.error().text.find("is no HOST:PORT"), std::string::npos) << endpoint.error().text;
  }
}

TEST(SocketAddress, KnowsLoopback) {
  for (const auto& [host, loopback] : {std::pair{"127.0.0.1", true},
                                       {"127.9.9.9", true},
                                       {"::1", true},
                                       {"::ffff:127.0.0.1", true},
                                       {"10.0.0.1", false},
                                       {"fe80::1", false}}) {
    const auto addresses = resolve(Endpoint{host, 1});
    ASSERT_TRUE(addresses) << host;
    EXPECT_EQ(addresses->front().is_loopback(), loopback) << host;
    EXPECT_EQ(addresses->front().port(), 1);
  }
}

}  // namespace
}  // namespace kbtp
