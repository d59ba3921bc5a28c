# rdma-core: libibverbs and librdmacm, as the targets rdma::ibverbs and rdma::rdmacm.
find_path(rdma_INCLUDE_DIR infiniband/verbs.h)
find_path(rdma_CM_INCLUDE_DIR rdma/rdma_cma.h)
find_library(rdma_IBVERBS_LIBRARY ibverbs)
find_library(rdma_CM_LIBRARY rdmacm)
mark_as_advanced(rdma_INCLUDE_DIR rdma_CM_INCLUDE_DIR rdma_IBVERBS_LIBRARY rdma_CM_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(rdma REQUIRED_VARS rdma_IBVERBS_LIBRARY rdma_CM_LIBRARY rdma_INCLUDE_DIR
                                                     rdma_CM_INCLUDE_DIR)
if(rdma_FOUND AND NOT TARGET rdma::ibverbs)
  add_library(rdma::ibverbs UNKNOWN IMPORTED)
  set_target_properties(rdma::ibverbs PROPERTIES IMPORTED_LOCATION "${rdma_IBVERBS_LIBRARY}"
                                                 INTERFACE_INCLUDE_DIRECTORIES "${rdma_INCLUDE_DIR}")
  add_library(rdma::rdmacm UNKNOWN IMPORTED)
  set_target_properties(rdma::rdmacm PROPERTIES IMPORTED_LOCATION "${rdma_CM_LIBRARY}"
                                                INTERFACE_INCLUDE_DIRECTORIES "${rdma_CM_INCLUDE_DIR}"
                                                INTERFACE_LINK_LIBRARIES rdma::ibverbs)
endif()
