noinst_LIBRARIES += src/report/libreport.a
src_report_libreport_a_SOURCES = \
	src/model/account.c src/model/account.h \
	src/model/cxxname.c src/model/cxxname.h \
	src/report/diff/diff.c src/report/diff/diff.h \
	src/model/find.c src/model/find.h \
	src/model/flight.c src/model/flight.h \
	src/model/flight_load.c \
	src/model/flight_out.c \
	src/report/text/folded.c src/report/text/folded.h \
	src/base/format.c src/base/format.h \
	src/report/diff/growth.c src/report/diff/growth.h \
	src/model/headline.c \
	src/job/job.c src/job/job.h src/job/parts.h \
	src/job/add.c \
	src/job/rules/account.c \
	src/job/devices.c \
	src/job/groups.c src/job/groups.h \
	src/job/json/json.c \
	src/job/json/load.c \
	src/job/rules/look.c src/job/rules/look.h \
	src/job/ras/ras.c src/job/ras/ras.h \
	src/job/ras/json.c \
	src/job/ras/text.c \
	src/job/ras/told.c \
	src/job/rules/rules.c \
	src/job/rules/collectives.c \
	src/job/rules/memory.c \
	src/job/rules/missing.c \
	src/job/rules/ras.c \
	src/job/set.c \
	src/job/state.c \
	src/job/tree.c \
	src/report/json/json.c \
	src/report/diff/json.c \
	src/json/in.c src/json/in.h \
	src/json/out.c src/json/out.h \
	src/report/json/recorder.c src/report/json/recorder.h \
	src/report/text/line.c src/report/text/line.h \
	src/report/json/load.c src/report/json/load.h \
	src/model/model.c src/model/model.h \
	src/model/oom.c \
	src/report/text/parts.c src/report/text/parts.h \
	src/model/pinned.c \
	src/model/recorder.c \
	src/model/place.c src/model/place.h \
	src/model/sites.c \
	src/report/text/text.c src/report/text/text.h \
	src/report/text/blocks.c \
	src/report/diff/text.c \
	src/report/text/flight.c \
	src/report/text/found.c \
	src/job/text/text.c src/job/text/text.h \
	src/job/text/groups.c \
	src/job/text/memory.c \
	src/job/text/ras.c \
	src/report/text/memory.c \
	src/report/text/oom.c \
	src/report/text/pinned.c \
	src/report/text/recorder.c \
	src/report/text/sites.c \
	src/report/text/threads.c \
	src/model/threads.c \
	src/base/width.c src/base/width.h \
	src/report/writer.h
