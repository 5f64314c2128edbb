# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/report/html/libhtml.a
src_report_html_libhtml_a_SOURCES = \
	src/report/html/attach.c src/report/html/attach.h \
	src/report/html/escape.c src/report/html/escape.h \
	src/report/html/html.h \
	src/report/html/packed.c src/report/html/packed.h \
	src/report/html/page.c \
	src/report/html/embed.S src/report/html/parts.c src/report/html/parts.h \
	src/report/html/report.c \
	src/report/html/saved.c src/report/html/saved.h \
	src/report/html/saved_job.c src/report/html/saved_job.h \
	src/report/html/saved_packed.c src/report/html/saved_packed.h \
	src/report/html/scripts.h \
	src/report/html/words.c src/report/html/words.h

# Those of the page itself: scripts.h names the scripts.
html_parts = \
	src/report/html/template.html \
	src/report/html/style.css \
	src/report/html/again.js \
	src/report/html/block_panel.js \
	src/report/html/colours.js \
	src/report/html/course.js \
	src/report/html/cxxname.js \
	src/report/html/data.js \
	src/report/html/diff.js \
	src/report/html/dom.js \
	src/report/html/flame.js \
	src/report/html/format.js \
	src/report/html/frames.js \
	src/report/html/head.js \
	src/report/html/job.js \
	src/report/html/job_faults.js \
	src/report/html/job_groups.js \
	src/report/html/job_head.js \
	src/report/html/job_kernels.js \
	src/report/html/job_matrix.js \
	src/report/html/job_memory.js \
	src/report/html/job_notes.js \
	src/report/html/job_rank.js \
	src/report/html/job_search.js \
	src/report/html/job_stacks.js \
	src/report/html/job_table.js \
	src/report/html/kernels.js \
	src/report/html/ledger.js \
	src/report/html/lines.js \
	src/report/html/main.js \
	src/report/html/notes.js \
	src/report/html/oom.js \
	src/report/html/owned.js \
	src/report/html/owner_list.js \
	src/report/html/owner_match.js \
	src/report/html/owner_tree.js \
	src/report/html/owners.js \
	src/report/html/page.js \
	src/report/html/reports.js \
	src/report/html/segment_colours.js \
	src/report/html/segment_draw.js \
	src/report/html/segment_filter.js \
	src/report/html/segment_layout.js \
	src/report/html/segment_map.js \
	src/report/html/segment_minimap.js \
	src/report/html/segment_paint.js \
	src/report/html/segment_pair.js \
	src/report/html/segment_view.js \
	src/report/html/segment_walk.js \
	src/report/html/segments.js \
	src/report/html/sites.js \
	src/report/html/stack_tree.js \
	src/report/html/stacks.js \
	src/report/html/stackspage.js \
	src/report/html/streams.js \
	src/report/html/task_tree.js \
	src/report/html/tasks.js \
	src/report/html/thread_groups.js \
	src/report/html/thread_row.js \
	src/report/html/thread_search.js \
	src/report/html/threads.js \
	src/report/html/treemap.js \
	src/report/html/treemap_layout.js \
	src/report/html/waits.js \
	src/report/html/waits_graph.js
EXTRA_DIST += $(html_parts)

src/report/html/embed.$(OBJEXT): $(html_parts)
