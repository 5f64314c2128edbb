target_test_libs = $(vt_target) $(unit_libs) -lpthread

unit_tests += tests/unit/test_maps
tests_unit_test_maps_SOURCES = tests/unit/test_maps.c
tests_unit_test_maps_CPPFLAGS = $(unit_cppflags)
tests_unit_test_maps_LDADD = $(target_test_libs)

unit_tests += tests/unit/test_live
tests_unit_test_live_SOURCES = tests/unit/test_live.c
tests_unit_test_live_CPPFLAGS = $(unit_cppflags)
tests_unit_test_live_LDADD = $(target_test_libs)

unit_tests += tests/unit/test_elfsym
tests_unit_test_elfsym_SOURCES = tests/unit/test_elfsym.c
tests_unit_test_elfsym_CPPFLAGS = $(unit_cppflags)
tests_unit_test_elfsym_LDADD = $(target_test_libs) -ldl

unit_tests += tests/unit/test_proc
tests_unit_test_proc_SOURCES = tests/unit/test_proc.c
tests_unit_test_proc_CPPFLAGS = $(unit_cppflags)
tests_unit_test_proc_LDADD = $(target_test_libs)

unit_tests += tests/unit/test_session
tests_unit_test_session_SOURCES = tests/unit/test_session.c
tests_unit_test_session_CPPFLAGS = $(unit_cppflags)
tests_unit_test_session_LDADD = $(target_test_libs)

unit_tests += tests/unit/test_snapshot
tests_unit_test_snapshot_SOURCES = tests/unit/test_snapshot.c
tests_unit_test_snapshot_CPPFLAGS = $(unit_cppflags)
tests_unit_test_snapshot_LDADD = $(target_test_libs)

unit_tests += tests/unit/test_replay
tests_unit_test_replay_SOURCES = tests/unit/test_replay.c
tests_unit_test_replay_CPPFLAGS = $(unit_cppflags)
tests_unit_test_replay_LDADD = $(target_test_libs)

unit_tests += tests/unit/test_core
tests_unit_test_core_SOURCES = tests/unit/test_core.c tests/unit/core_image.c tests/unit/core_image.h
tests_unit_test_core_CPPFLAGS = $(unit_cppflags)
tests_unit_test_core_LDADD = $(target_test_libs)

unit_tests += tests/unit/test_grace
tests_unit_test_grace_SOURCES = tests/unit/test_grace.c
tests_unit_test_grace_CPPFLAGS = $(unit_cppflags)
tests_unit_test_grace_LDADD = $(target_test_libs)
