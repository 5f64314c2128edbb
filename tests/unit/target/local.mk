# SPDX-License-Identifier: Apache-2.0
unit_tests += tests/unit/target/test_elfsym
tests_unit_target_test_elfsym_SOURCES = tests/unit/target/test_elfsym.c
tests_unit_target_test_elfsym_CPPFLAGS = $(unit_cppflags)
tests_unit_target_test_elfsym_LDADD = $(vt_target) $(unit_libs)

unit_tests += tests/unit/target/test_grace
tests_unit_target_test_grace_SOURCES = tests/unit/target/test_grace.c
tests_unit_target_test_grace_CPPFLAGS = $(unit_cppflags)
tests_unit_target_test_grace_LDADD = $(vt_target) $(unit_libs)

unit_tests += tests/unit/target/test_in_root
tests_unit_target_test_in_root_SOURCES = tests/unit/target/test_in_root.c
tests_unit_target_test_in_root_CPPFLAGS = $(unit_cppflags)
tests_unit_target_test_in_root_LDADD = $(vt_target) $(unit_libs)

unit_tests += tests/unit/target/test_live
tests_unit_target_test_live_SOURCES = tests/unit/target/test_live.c
tests_unit_target_test_live_CPPFLAGS = $(unit_cppflags)
tests_unit_target_test_live_LDADD = $(vt_target) $(unit_libs)

unit_tests += tests/unit/target/test_maps
tests_unit_target_test_maps_SOURCES = tests/unit/target/test_maps.c
tests_unit_target_test_maps_CPPFLAGS = $(unit_cppflags)
tests_unit_target_test_maps_LDADD = $(vt_target) $(unit_libs)

unit_tests += tests/unit/target/test_proc
tests_unit_target_test_proc_SOURCES = tests/unit/target/test_proc.c
tests_unit_target_test_proc_CPPFLAGS = $(unit_cppflags)
tests_unit_target_test_proc_LDADD = $(vt_target) $(unit_libs)

unit_tests += tests/unit/target/test_replay
tests_unit_target_test_replay_SOURCES = tests/unit/target/test_replay.c
tests_unit_target_test_replay_CPPFLAGS = $(unit_cppflags)
tests_unit_target_test_replay_LDADD = $(vt_target) $(unit_libs)

unit_tests += tests/unit/target/test_resident
tests_unit_target_test_resident_SOURCES = tests/unit/target/test_resident.c
tests_unit_target_test_resident_CPPFLAGS = $(unit_cppflags)
tests_unit_target_test_resident_LDADD = $(vt_target) $(unit_libs)

unit_tests += tests/unit/target/test_session
tests_unit_target_test_session_SOURCES = tests/unit/target/test_session.c
tests_unit_target_test_session_CPPFLAGS = $(unit_cppflags)
tests_unit_target_test_session_LDADD = $(vt_target) $(unit_libs)

unit_tests += tests/unit/target/test_snapshot
tests_unit_target_test_snapshot_SOURCES = tests/unit/target/test_snapshot.c
tests_unit_target_test_snapshot_CPPFLAGS = $(unit_cppflags)
tests_unit_target_test_snapshot_LDADD = $(vt_target) $(unit_libs)

unit_tests += tests/unit/target/test_words
tests_unit_target_test_words_SOURCES = tests/unit/target/test_words.c
tests_unit_target_test_words_CPPFLAGS = $(unit_cppflags)
tests_unit_target_test_words_LDADD = $(vt_target) $(unit_libs)
