#include "verbs/status.h"

#include <gtest/gtest.h>
#include <set>
#include <string>

namespace kbtp::verbs {
namespace {

using Kind = rdma::CloseReason::Kind;

TEST(WorkStatusTable, EveryStatusOfLibibverbsHasItsOwnSentence) {
  std::set<std::string> names;
  std::set<std::string> texts;
  for (int status = IBV_WC_SUCCESS; status <= IBV_WC_TM_RNDV_INCOMPLETE; ++status) {
    const StatusMeaning& meaning = meaning_of(static_cast<ibv_wc_status>(status), {});
    EXPECT_EQ(meaning.status, status);
    EXPECT_TRUE(std::string(meaning.name).starts_with("IBV_WC_")) << meaning.name;
    EXPECT_TRUE(std::string(meaning.text).ends_with(".")) << meaning.text;
    names.insert(meaning.name);
    texts.insert(meaning.text);
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(IBV_WC_TM_RNDV_INCOMPLETE) + 1);
  EXPECT_EQ(texts.size(), names.size());
}

TEST(WorkStatusTable, AStatusFromTheFutureIsToldAsUnknown) {
  const StatusMeaning& meaning = meaning_of(static_cast<ibv_wc_status>(IBV_WC_TM_RNDV_INCOMPLETE + 1), {});
  EXPECT_NE(std::string(meaning.name).find("unknown"), std::string::npos);
  EXPECT_EQ(meaning.kind, Kind::local_error);
}

TEST(WorkStatusTable, WhoIsToBlameIsRight) {
  EXPECT_EQ(meaning_of(IBV_WC_REM_ACCESS_ERR, {}).kind, Kind::remote_error);
  EXPECT_EQ(meaning_of(IBV_WC_REM_INV_REQ_ERR, {}).kind, Kind::remote_error);
  EXPECT_EQ(meaning_of(IBV_WC_RNR_RETRY_EXC_ERR, {}).kind, Kind::remote_error);
  EXPECT_EQ(meaning_of(IBV_WC_RETRY_EXC_ERR, {}).kind, Kind::transport_lost);
  EXPECT_EQ(meaning_of(IBV_WC_WR_FLUSH_ERR, {}).kind, Kind::transport_lost);
  EXPECT_EQ(meaning_of(IBV_WC_LOC_PROT_ERR, {}).kind, Kind::local_error);
  EXPECT_EQ(meaning_of(IBV_WC_LOC_LEN_ERR, {}).kind, Kind::local_error);
}

TEST(WorkStatusTable, WhatSiwBlamesOnARequestMayBeAnOrdinaryEnd) {
  const StatusMeaning& right = meaning_of(IBV_WC_LOC_QP_OP_ERR, {});
  EXPECT_EQ(right.kind, Kind::local_error);
  EXPECT_FALSE(right.event_tells);
  const StatusMeaning& of_siw = meaning_of(IBV_WC_LOC_QP_OP_ERR, {.blames_requests_for_ends = true});
  EXPECT_EQ(of_siw.kind, Kind::transport_lost);
  EXPECT_TRUE(of_siw.event_tells) << "the connection manager says whether the peer has finished";
  EXPECT_NE(std::string(of_siw.text).find("had ended"), std::string::npos);
  EXPECT_EQ(std::string(of_siw.text).find("fault"), std::string::npos);
  for (const ibv_wc_status other : {IBV_WC_LOC_PROT_ERR, IBV_WC_REM_ACCESS_ERR, IBV_WC_GENERAL_ERR})
    EXPECT_EQ(&meaning_of(other, {.blames_requests_for_ends = true}), &meaning_of(other, {}));
}

TEST(AsynchronousEvents, ThoseOfAConnectionEndItAndOthersDoNot) {
  for (const ibv_event_type event : {IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR,
                                     IBV_EVENT_CQ_ERR, IBV_EVENT_DEVICE_FATAL}) {
    EXPECT_NE(ends_connection(event), nullptr) << ibv_event_type_str(event);
  }
  for (const ibv_event_type event : {IBV_EVENT_COMM_EST, IBV_EVENT_SQ_DRAINED, IBV_EVENT_PORT_ACTIVE,
                                     IBV_EVENT_PORT_ERR, IBV_EVENT_GID_CHANGE, IBV_EVENT_PATH_MIG}) {
    EXPECT_EQ(ends_connection(event), nullptr) << ibv_event_type_str(event);
  }
}

}  // namespace
}  // namespace kbtp::verbs
