noinst_LIBRARIES += src/report/libreport.a
src_report_libreport_a_SOURCES = \
	src/report/model.h \
	src/report/writer.h
