# gdb's commands: the embedded copy is as it is here, the program's place goes in when vramtap gdb-script prints it.
gdbcmdsdir = $(pkgdatadir)
gdbcmds_DATA = gdbcmds/vramtap.gdb
gdbcmds/vramtap.gdb: $(top_srcdir)/gdbcmds/vramtap.gdb.in Makefile
	@$(MKDIR_P) gdbcmds
	$(AM_V_GEN)sed "s|@VRAMTAP@|'$(bindir)/vramtap'|" $(top_srcdir)/gdbcmds/vramtap.gdb.in >$@
CLEANFILES += gdbcmds/vramtap.gdb
EXTRA_DIST += gdbcmds/vramtap.gdb.in

# Where gdb finds it by itself, if configure was told that directory: one line there, the commands stay where they are.
if HAVE_GDBINIT_DIR
gdbinit_DATA = gdbcmds/gdbinit/vramtap.gdb
gdbcmds/gdbinit/vramtap.gdb: Makefile
	@$(MKDIR_P) gdbcmds/gdbinit
	$(AM_V_GEN)echo "source $(gdbcmdsdir)/vramtap.gdb" >$@
CLEANFILES += gdbcmds/gdbinit/vramtap.gdb
endif
