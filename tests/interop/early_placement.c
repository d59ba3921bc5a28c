/* A server over librdmacm that accepts one connection, tells where its memory is in the Private Data of the Reply (STag,
 * then Tagged Offset, in network order), and says when the first octet of that memory changes. */
#include <arpa/inet.h>
#include <endian.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fail(const char* what) {
  perror(what);
  return 3;
}

static int next_event(struct rdma_event_channel* channel, enum rdma_cm_event_type due, struct rdma_cm_id** id) {
  struct rdma_cm_event* event;
  if (rdma_get_cm_event(channel, &event) != 0 || event->event != due) return -1;
  *id = event->id;
  return rdma_ack_cm_event(event);
}

int main(int count, char** words) {
  if (count != 3) return 2;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(words[2]))};
  inet_aton(words[1], &address.sin_addr);
  struct rdma_event_channel* channel = rdma_create_event_channel();
  struct rdma_cm_id *listener, *id;
  if (channel == NULL || rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) != 0 ||
      rdma_bind_addr(listener, (struct sockaddr*)&address) != 0 || rdma_listen(listener, 1) != 0)
    return fail("listen");
  printf("listening on %s:%s\n", words[1], words[2]);
  fflush(stdout);
  if (next_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST, &id) != 0) return fail("request");
  struct ibv_pd* pd = ibv_alloc_pd(id->verbs);
  struct ibv_cq* queue = ibv_create_cq(id->verbs, 4, NULL, NULL, 0);
  struct ibv_qp_init_attr attributes = {
      .send_cq = queue, .recv_cq = queue, .qp_type = IBV_QPT_RC, .cap = {4, 4, 1, 1, 0}};
  unsigned char* memory = aligned_alloc(4096, 4096);
  memset(memory, 0, 4096);
  struct ibv_mr* region = ibv_reg_mr(pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  if (region == NULL || rdma_create_qp(id, pd, &attributes) != 0) return fail("set-up");
  struct __attribute__((packed)) {
    uint32_t stag;
    uint64_t offset;
  } where = {htobe32(region->rkey), htobe64((uint64_t)(uintptr_t)memory)};
  struct rdma_conn_param reply = {.private_data = &where, .private_data_len = sizeof where};
  if (rdma_accept(id, &reply) != 0) return fail("accept");
  for (int tick = 0; tick < 20000; ++tick) {
    if (*(volatile unsigned char*)memory != 0) {
      printf("changed\n");
      fflush(stdout);
      break;
    }
    usleep(1000);
  }
  sleep(3);
  return 0;
}
