# gdb's commands: the embedded copy is as it is here, the program's place goes in when vramtap gdb-script prints it.
gdbcmdsdir = $(pkgdatadir)
gdbcmds_DATA = gdbcmds/vramtap.gdb
gdbcmds/vramtap.gdb: $(top_srcdir)/gdbcmds/vramtap.gdb.in Makefile
	@$(MKDIR_P) gdbcmds
	$(AM_V_GEN)sed "s|@VRAMTAP@|'$(bindir)/vramtap'|" $(top_srcdir)/gdbcmds/vramtap.gdb.in >$@
CLEANFILES += gdbcmds/vramtap.gdb
EXTRA_DIST += gdbcmds/vramtap.gdb.in
