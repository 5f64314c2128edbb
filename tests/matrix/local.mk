# Every PyTorch release: the walk from outside, the walk inside, and the library's own word, after every thousand operations.
check_PROGRAMS += tests/matrix/matrix_compare
tests_matrix_matrix_compare_SOURCES = \
	tests/functional/torch_compare.c tests/functional/torch_compare.h \
	tests/matrix/matrix_compare.c
tests_matrix_matrix_compare_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_matrix_matrix_compare_LDADD = \
	$(vt_inject) $(vt_walk) $(VT_LIBS)
EXTRA_DIST += tests/matrix/matrix.py tests/matrix/owners_matrix.py tests/matrix/libpools_matrix.py

# All releases; PATCHES=1 takes every patch release. The wheels come from the network into the cache. Then the owners of each release on
# each interpreter, which needs whole wheels; then the pools of JAX's and CuPy's releases. check-matrix-walk, check-matrix-owners and
# check-matrix-libpools do one of them.
check-matrix: check-matrix-walk check-matrix-owners check-matrix-libpools
check-matrix-walk: all tests/matrix/matrix_compare
	VRAMTAP_SOURCE_DIR='$(abs_top_srcdir)' VRAMTAP_BUILD_DIR='$(abs_top_builddir)' \
		python3 -B $(srcdir)/tests/matrix/matrix.py $(if $(PATCHES),--patches) $(if $(SEED),--seed $(SEED)) $(VERSIONS)
check-matrix-owners: all
	VRAMTAP_SOURCE_DIR='$(abs_top_srcdir)' VRAMTAP_BUILD_DIR='$(abs_top_builddir)' \
		python3 -B $(srcdir)/tests/matrix/owners_matrix.py $(VERSIONS)
check-matrix-libpools: all
	VRAMTAP_SOURCE_DIR='$(abs_top_srcdir)' VRAMTAP_BUILD_DIR='$(abs_top_builddir)' VRAMTAP='$(abs_top_builddir)/vramtap' \
		python3 -B $(srcdir)/tests/matrix/libpools_matrix.py $(VERSIONS)
.PHONY: check-matrix check-matrix-walk check-matrix-owners check-matrix-libpools
