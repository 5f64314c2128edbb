src_walk_libwalk_a_SOURCES +=
