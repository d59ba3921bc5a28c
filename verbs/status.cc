#include "verbs/status.h"

#include <algorithm>
#include <array>

namespace kbtp::verbs {

namespace {

using Kind = rdma::CloseReason::Kind;

constexpr std::array kMeanings{
    StatusMeaning{IBV_WC_SUCCESS, "IBV_WC_SUCCESS", Kind::graceful, "The request ended well."},
    StatusMeaning{
        IBV_WC_LOC_LEN_ERR, "IBV_WC_LOC_LEN_ERR", Kind::local_error,
        "The peer sent a message longer than the receive that it met, or the device takes no message "
        "as long as ours."},
    StatusMeaning{IBV_WC_LOC_QP_OP_ERR, "IBV_WC_LOC_QP_OP_ERR", Kind::local_error,
                  "The device found our own request inconsistent, which is a fault of this program or of the "
                  "driver."},
    StatusMeaning{IBV_WC_LOC_EEC_OP_ERR, "IBV_WC_LOC_EEC_OP_ERR", Kind::local_error,
                  "An end-to-end context failed; KBTP uses none, so this is a fault of the driver."},
    StatusMeaning{IBV_WC_LOC_PROT_ERR, "IBV_WC_LOC_PROT_ERR", Kind::local_error,
                  "Our own request named memory that is not registered with the device, or no longer."},
    StatusMeaning{IBV_WC_WR_FLUSH_ERR, "IBV_WC_WR_FLUSH_ERR", Kind::transport_lost,
                  "The connection had ended before the request was done.", true},
    StatusMeaning{IBV_WC_MW_BIND_ERR, "IBV_WC_MW_BIND_ERR", Kind::local_error,
                  "A memory window could not be bound, so the peer has no way to the buffer."},
    StatusMeaning{IBV_WC_BAD_RESP_ERR, "IBV_WC_BAD_RESP_ERR", Kind::local_error,
                  "The peer's RDMA answered with what was not asked for."},
    StatusMeaning{IBV_WC_LOC_ACCESS_ERR, "IBV_WC_LOC_ACCESS_ERR", Kind::local_error,
                  "The peer's RDMA Write with Immediate, or its answer, met memory that it may not write."},
    StatusMeaning{
        IBV_WC_REM_INV_REQ_ERR, "IBV_WC_REM_INV_REQ_ERR", Kind::remote_error,
        "The peer's RDMA calls our request invalid: longer than its receive, or of a kind or depth that "
        "it does not take."},
    StatusMeaning{
        IBV_WC_REM_ACCESS_ERR, "IBV_WC_REM_ACCESS_ERR", Kind::remote_error,
        "The peer's RDMA refused access: the STag is not valid there, its rights do not cover the request, "
        "or the octets lie out of its bounds."},
    StatusMeaning{IBV_WC_REM_OP_ERR, "IBV_WC_REM_OP_ERR", Kind::remote_error,
                  "The peer's RDMA could not complete our request, for a reason of its own."},
    StatusMeaning{IBV_WC_RETRY_EXC_ERR, "IBV_WC_RETRY_EXC_ERR", Kind::transport_lost,
                  "The peer does not answer any more: it is gone, or the network is."},
    StatusMeaning{
        IBV_WC_RNR_RETRY_EXC_ERR, "IBV_WC_RNR_RETRY_EXC_ERR", Kind::remote_error,
        "The peer had no receive posted for our message for too long; its side of the credits is broken "
        "(KBTP 5)."},
    StatusMeaning{
        IBV_WC_LOC_RDD_VIOL_ERR, "IBV_WC_LOC_RDD_VIOL_ERR", Kind::local_error,
        "A reliable datagram domain was violated; KBTP uses none, so this is a fault of the driver."},
    StatusMeaning{IBV_WC_REM_INV_RD_REQ_ERR, "IBV_WC_REM_INV_RD_REQ_ERR", Kind::remote_error,
                  "The peer called a reliable datagram invalid; KBTP sends none."},
    StatusMeaning{IBV_WC_REM_ABORT_ERR, "IBV_WC_REM_ABORT_ERR", Kind::remote_error,
                  "The peer's RDMA gave our request up."},
    StatusMeaning{IBV_WC_INV_EECN_ERR, "IBV_WC_INV_EECN_ERR", Kind::local_error,
                  "An end-to-end context was invalid; KBTP uses none, so this is a fault of the driver."},
    StatusMeaning{
        IBV_WC_INV_EEC_STATE_ERR, "IBV_WC_INV_EEC_STATE_ERR", Kind::local_error,
        "An end-to-end context was in a wrong state; KBTP uses none, so this is a fault of the driver."},
    StatusMeaning{IBV_WC_FATAL_ERR, "IBV_WC_FATAL_ERR", Kind::local_error,
                  "The device has failed; it may have to be reset."},
    StatusMeaning{IBV_WC_RESP_TIMEOUT_ERR, "IBV_WC_RESP_TIMEOUT_ERR", Kind::transport_lost,
                  "The peer did not answer in time."},
    StatusMeaning{IBV_WC_GENERAL_ERR, "IBV_WC_GENERAL_ERR", Kind::local_error,
                  "The device failed the request and does not say why."},
    StatusMeaning{IBV_WC_TM_ERR, "IBV_WC_TM_ERR", Kind::local_error,
                  "Tag matching failed; KBTP uses none, so this is a fault of the driver."},
    StatusMeaning{
        IBV_WC_TM_RNDV_INCOMPLETE, "IBV_WC_TM_RNDV_INCOMPLETE", Kind::local_error,
        "A tag-matching rendezvous is incomplete; KBTP uses none, so this is a fault of the driver."},
};

constexpr StatusMeaning kUnknown{IBV_WC_GENERAL_ERR, "a status unknown to this program", Kind::local_error,
                                 "The device failed the request in a way that this program has no name for."};

constexpr StatusMeaning kEndOrRequest{IBV_WC_LOC_QP_OP_ERR, "IBV_WC_LOC_QP_OP_ERR", Kind::transport_lost,
                                      "The connection had ended before the request was done, or the request "
                                      "was inconsistent; the device does not tell these apart.",
                                      true};

}  // namespace

const StatusMeaning& meaning_of(ibv_wc_status status, const Quirks& quirks) {
  if (status == IBV_WC_LOC_QP_OP_ERR && quirks.blames_requests_for_ends) return kEndOrRequest;
  const auto* found = std::find_if(kMeanings.begin(), kMeanings.end(),
                                   [status](const StatusMeaning& m) { return m.status == status; });
  return found == kMeanings.end() ? kUnknown : *found;
}

const char* ends_connection(ibv_event_type event) {
  switch (event) {
    case IBV_EVENT_CQ_ERR:
      return "the device's completion queue overran or failed";
    case IBV_EVENT_QP_FATAL:
      return "the device ended the connection: what the peer sent breaks the rules, or the device failed";
    case IBV_EVENT_QP_REQ_ERR:
      return "the device ended the connection: the peer sent what its protocol does not allow";
    case IBV_EVENT_QP_ACCESS_ERR:
      return "the device ended the connection: the peer asked for memory that it has no right to";
    case IBV_EVENT_DEVICE_FATAL:
      return "the RDMA device has failed or was removed";
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_SM_CHANGE:
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
    case IBV_EVENT_CLIENT_REREGISTER:
    case IBV_EVENT_GID_CHANGE:
    case IBV_EVENT_WQ_FATAL:
      return nullptr;
  }
  return nullptr;
}

}  // namespace kbtp::verbs
