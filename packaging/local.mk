# SPDX-License-Identifier: Apache-2.0
# make release: what is published of a version, in release/ (packaging/README.md). make check-release: twice, and compared.
release_scripts = packaging/epoch.sh packaging/image.py packaging/release.sh packaging/tar.sh packaging/wheel.py
EXTRA_DIST += $(release_scripts) packaging/Containerfile packaging/README.md packaging/spack/package.py.in
# For rpmbuild -ta.
EXTRA_DIST += packaging/vramtap.spec

# The archive of "make dist" is the same each time: its order, owners, modes and dates (automake takes both from the environment).
export TAR = $(SHELL) $(top_srcdir)/packaging/tar.sh
export XZ_OPT = -6 -T1
dist-hook:
	@$(SHELL) $(top_srcdir)/packaging/epoch.sh >$(distdir)/packaging/source-date.new
	@mv -f $(distdir)/packaging/source-date.new $(distdir)/packaging/source-date
	@find $(distdir) -name __pycache__ -prune -exec rm -rf {} +

# The linker strips it: so its build id is not that of paths in debug information, and it is the same in any directory.
EXTRA_PROGRAMS = packaging/vramtap
packaging_vramtap_SOURCES = $(vramtap_SOURCES)
packaging_vramtap_LDADD = $(vramtap_LDADD)
packaging_vramtap_LDFLAGS = $(VT_STATIC_FLAGS) -pthread -s
CLEANFILES += packaging/vramtap

# Besides the program: only these.
PARTS = archive wheel image debian
release: all
if VT_IS_RELEASABLE
	@$(MAKE) $(AM_MAKEFLAGS) packaging/vramtap
	@MAKE='$(MAKE)' PYTHON=python3 $(SHELL) $(top_srcdir)/packaging/release.sh '$(abs_top_srcdir)' '$(PACKAGE_VERSION)' '$(PACKAGE_URL)' $(PARTS)
else
	@echo 'make release: this build makes no program to publish: configure it without --disable-static, --enable-sanitizers and' >&2
	@echo '--enable-fault-points, where libelf.a and libdw.a are complete (Debian 12; elfutils 0.191 and later ship a libelf.a that is not)' >&2
	@false
endif
check-release: all
	@$(SHELL) $(top_srcdir)/tests/packages/reproducible.sh
.PHONY: release check-release
clean-local:
	rm -rf release packaging/work packaging/again.log
