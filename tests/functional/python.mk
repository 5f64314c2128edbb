# Python frames: every CPython that is here, against its own word.
check_PROGRAMS += tests/functional/python_frames
tests_functional_python_frames_SOURCES = tests/functional/python_frames.c
tests_functional_python_frames_LDADD = \
	$(vt_walk) $(VT_LIBS)
functional_tests += tests/functional/python_frames.py tests/functional/python_values.py tests/functional/asyncio_tasks.py

# CPython's heap as a graph, against gc.get_referents().
check_PROGRAMS += tests/functional/python_heap
tests_functional_python_heap_SOURCES = tests/functional/python_heap.c
tests_functional_python_heap_LDADD = \
	$(vt_walk) $(VT_LIBS)
functional_tests += tests/functional/python_heap.py
EXTRA_DIST += \
	tests/targets/pyprog_cases.py \
	tests/targets/pyprog_frames.py \
	tests/targets/pyprog_heap.py \
	tests/targets/pyprog_lines.py \
	tests/targets/pyprog_locals.py \
	tests/targets/pyprog_tensors.py \
	tests/targets/pyprog_threads.py
