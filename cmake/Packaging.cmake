# cmake --install, find_package(kbtp) and the Debian package.
include(CMakePackageConfigHelpers)

set(KBTP_INSTALLED_LIBRARIES kbtp_flags kbtp_base kbtp_wire kbtp_memory kbtp_rdma kbtp_target kbtp_initiator kbtp_mpa
                             kbtp_ddp kbtp_rdmap kbtp_rnic kbtp_verbs)

install(TARGETS kbtp kbtp-trace-gen RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS ${KBTP_INSTALLED_LIBRARIES} EXPORT kbtp ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY base proto rdmap_binding verbs DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/kbtp
        FILES_MATCHING PATTERN "*.h" PATTERN "golden*.h" EXCLUDE PATTERN "fake" EXCLUDE)
install(EXPORT kbtp NAMESPACE kbtp:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kbtp FILE kbtpTargets.cmake)
configure_package_config_file(cmake/kbtpConfig.cmake.in ${CMAKE_BINARY_DIR}/kbtpConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kbtp)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/kbtpConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/kbtpConfig.cmake ${CMAKE_BINARY_DIR}/kbtpConfigVersion.cmake
        cmake/Findrdma.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kbtp)

file(GLOB man_pages CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/docs/man/*.1)
install(FILES ${man_pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES conformance/peers/siw.profile conformance/peers/siw.expect conformance/peers/rxe.profile conformance/peers/rxe.expect DESTINATION ${CMAKE_INSTALL_DATADIR}/kbtp/peers)
install(FILES tools/completion/kbtp.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME kbtp)
# Where Debian's Wireshark looks for Lua plugins; GNUInstallDirs has that folder for the prefix /usr only.
set(KBTP_WIRESHARK_PLUGINS lib/${CMAKE_LIBRARY_ARCHITECTURE}/wireshark/plugins
    CACHE STRING "Folder under the prefix for Wireshark's Lua dissector of KBTP")
install(FILES pcap/wireshark/kbtp.lua DESTINATION ${KBTP_WIRESHARK_PLUGINS})
install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES examples/peer_to_peer.cc DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME kbtp)
set(CPACK_PACKAGE_CONTACT "The KBTP reference stack authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "reference stack and conformance suite of the KV Cache Block Transfer Protocol")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
include(CPack)
