#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds vramtap and runs every test that needs no GPU. Installs what is missing (as root or with sudo), builds outside
# the source tree, and is quick the second time.
#
# usage: run.sh [--quick | STEP...]        steps: lint dist gcc cross packages matrix sanitizers (default: all of them)
#   --quick         five minutes at most: one build, unit tests, and the functional scripts that tell most
#   VRAMTAP_CACHE   where builds, wheels and interpreters are kept (default: ~/.cache/vramtap)
#   VRAMTAP_SOAK=1  long forms of the soak tests, and all functional scripts in both builds
set -u

here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
VRAMTAP_CACHE=${VRAMTAP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vramtap}
export VRAMTAP_CACHE
passed=0
failed=0
skipped=0
problems=
case ${1:-} in
--quick) steps=quick ;;
*) steps=${*:-lint dist gcc cross packages matrix sanitizers} ;;
esac
jobs=$(nproc)

say() {
	printf '\n== %s\n' "$*"
}

problem() {
	failed=$((failed + 1))
	problems="$problems
  $*"
	printf 'FAILED: %s\n' "$*"
}

# Counts one check that is not part of a make suite.
try() {
	label=$1
	shift
	if "$@"; then
		passed=$((passed + 1))
		printf 'ok: %s\n' "$label"
	else
		problem "$label"
	fi
}

# What failed, a line each: the end of a log may be all that somebody has.
failures() {
	awk '/^(FAIL|ERROR): / { name = $0 } /^(FAILED|[A-Za-z.]*Error)/ { print "    " name ": " substr($0, 1, 600) }' "$1"
}

# Adds the counts of an automake suite; shows its failures.
count_suite() {
	log=$1
	label=$2
	if ! grep -q '^# PASS:' "$log" 2>/dev/null; then
		problem "$label did not run"
		return
	fi
	p=$(sed -n 's/^# PASS: *//p' "$log")
	f=$(sed -n 's/^# FAIL: *//p' "$log")
	e=$(sed -n 's/^# ERROR: *//p' "$log")
	s=$(sed -n 's/^# SKIP: *//p' "$log")
	passed=$((passed + p))
	failed=$((failed + f + e))
	skipped=$((skipped + s))
	[ $((f + e)) = 0 ] || {
		problems="$problems
  $label: $((f + e)) failed
$(failures "$log")"
		tail -n 200 "$log"
	}
	printf '%s: %s passed, %s failed, %s skipped\n' "$label" "$p" "$((f + e))" "$s"
	[ "$s" = 0 ] || grep -E '^(SKIP|skip)' "$log" | sort -u | head -40
}

build() {
	name=$1
	shift
	sh "$here/scripts/build.sh" "$VRAMTAP_CACHE/build/$name" "$CUDA_HEADERS" "$@" >"$VRAMTAP_CACHE/build-$name.log" 2>&1 || {
		tail -n 40 "$VRAMTAP_CACHE/build-$name.log"
		return 1
	}
}

# A target of make's, and more arguments for it.
suite() {
	name=$1
	shift
	# The programs of the tests, with all processors.
	make -s -j"$jobs" -C "$VRAMTAP_CACHE/build/$name" check TESTS= >/dev/null 2>&1
	# The log of an earlier run must not be counted as this one's.
	rm -f "$VRAMTAP_CACHE/build/$name/test-suite.log"
	# With 32 random bits in addresses (vm.mmap_rnd_bits) the sanitizers of gcc 12 and clang 14 crash now and then.
	fixed_addresses=
	[ "$name" != sanitizers ] || fixed_addresses="setarch $(uname -m) -R"
	# shellcheck disable=SC2086 # a command with arguments
	(cd "$VRAMTAP_CACHE/build/$name" && $fixed_addresses make -s -k "$@" >"$VRAMTAP_CACHE/$name-$1.log" 2>&1)
	grep -E '^(PASS|FAIL|SKIP|ERROR):' "$VRAMTAP_CACHE/$name-$1.log"
	count_suite "$VRAMTAP_CACHE/build/$name/test-suite.log" "$name $1"
	# What with-timeout.sh leaves in the log of each test of this suite.
	grep -E '^(PASS|FAIL|SKIP|ERROR):' "$VRAMTAP_CACHE/$name-$1.log" | sed 's/^[A-Z]*: //' | while read -r test; do
		sed -n "s|^took \\(.*\\)|\\1  $name $test|p" "$VRAMTAP_CACHE/build/$name/${test%.*}.log" 2>/dev/null | tail -n 1
	done >>"$times"
}

# What functional tests run against is fetched in the background: the steps before, and unit tests, need only the simulated device.
prepare() {
	sh "$here/tests/simcuda/build.sh" "$VRAMTAP_CACHE/simcuda" || problem 'building the simulated device'
	sh "$here/tests/setup/prepare.sh" >"$VRAMTAP_CACHE/prepare.log" 2>&1 &
	preparing=$!
}

prepared() {
	[ -n "$preparing" ] || return 0
	say 'PyTorch wheels and the simulated device'
	wait "$preparing" || problem 'setting up PyTorch on the simulated device (see below)'
	preparing=
	cat "$VRAMTAP_CACHE/prepare.log"
}

functional() {
	prepared
	tree=$1
	shift
	suite "$tree" "$@" -j"$jobs"
}

# Each functional script is a program with PyTorch or more, and takes its time; all of them in two builds are an hour. So each has one
# build, that with the sanitizers, but for these.
#   static_only   in the build that users have: what a browser, a shell or gdb (but for stacks) does with our output, jobs in containers and
#                 clusters, and many programs for rules that other scripts run with sanitizers
#   both          in both: those that measure, those of the stop and of what is injected, and the basic ones
# With VRAMTAP_SOAK, before a release, both builds run all of them; so does make check-functional.
static_only=
for script in page_owners page_pictures page_threads completion texts readme tutorial quickstart gdb_docs \
	report_soak folklore alarms growth watch_many run_oom report_official old_kernel pods slurm_recipes triage_slurm; do
	static_only="$static_only tests/functional/$script.py"
done
for script in memory unchanged inferiors long_answers outside wrong_use; do
	static_only="$static_only tests/gdb/$script.py"
done
both=
for script in core ledger profiles python_values recorder_hook report_cli report_hostile report_map stacks_cli stacks_no_stop \
	usage where; do
	both="$both tests/functional/$script.py"
done

# The functional scripts that tell most in a short time: a report and stacks of a real allocator, a core, a job.
quick_tests=
for script in report_cli report_torch stacks_cli report_pinned triage_engines; do
	quick_tests="$quick_tests tests/functional/$script.py"
done

step_quick() {
	say 'quick: lint of scripts and pages, gcc, unit tests, some functional tests'
	lint_texts
	try 'build with gcc' build gcc --enable-werror
	suite gcc check -j"$jobs"
	functional gcc check-TESTS "TESTS=$quick_tests"
}

lint_texts() {
	try 'shellcheck' sh -c "cd '$here' && git ls-files '*.sh' '*.bash' .ci/run | xargs shellcheck"
	try 'man pages' sh -c "cd '$here' && mandoc -Tlint -W warning doc/*.[17]"
}

step_lint() {
	say 'lint'
	lint_texts
	try 'format' sh "$here/scripts/format.sh" --check
	build gcc --enable-werror || return
	try 'clang-tidy' sh "$here/scripts/tidy.sh" "$VRAMTAP_CACHE/build/gcc"
}

step_gcc() {
	say 'gcc: build, unit tests, functional tests'
	try 'build with gcc' build gcc --enable-werror
	suite gcc check -j"$jobs"
	if [ -n "${VRAMTAP_SOAK:-}" ]; then
		functional gcc check-functional
	else
		functional gcc check-TESTS "TESTS=$static_only $both tests/functional/inject_cases.sh"
	fi
}

# aarch64 on this machine: a core of a program that is compiled here and runs under emulation.
step_cross() {
	say 'aarch64: a core of it'
	build gcc --enable-werror || return
	try 'the cross compiler and the emulator' sh "$here/tests/setup/aarch64-cross.sh"
	try 'tests/functional/core_aarch64.py' env "PATH=$VRAMTAP_CACHE/aarch64/cross/bin:$PATH" "PYTHONPATH=$here/tests/functional" \
		"VRAMTAP_BUILD_DIR=$VRAMTAP_CACHE/build/gcc" "VRAMTAP_SOURCE_DIR=$here" \
		timeout 300 python3 -B "$here/tests/functional/core_aarch64.py"
}

# Once, as it is long: the walk of the oldest PyTorch release, of one in the middle and of the newest; owners on three interpreters.
step_matrix() {
	prepared
	say 'the matrix of PyTorch releases'
	build gcc --enable-werror || return
	log=$VRAMTAP_CACHE/matrix.log
	try 'the matrix of PyTorch releases (make check-matrix runs all of them)' sh -c "cd '$VRAMTAP_CACHE/build/gcc' && \
		make -s tests/matrix/matrix_compare >'$log' 2>&1 && \
		VRAMTAP_BUILD_DIR=. VRAMTAP_SOURCE_DIR='$here' timeout 3600 python3 -B '$here/tests/matrix/matrix.py' --run >>'$log' 2>&1"
	grep -E '^(ok|FAILED|PyTorch|again|[0-9]+ of)|^the last|differs' "$log" || tail -n 20 "$log"
	log=$VRAMTAP_CACHE/matrix-owners.log
	try 'owners on other interpreters and PyTorch releases (make check-matrix runs all of them)' sh -c "cd '$VRAMTAP_CACHE/build/gcc' && \
		VRAMTAP_BUILD_DIR=. VRAMTAP_SOURCE_DIR='$here' timeout 3600 python3 -B '$here/tests/matrix/owners_matrix.py' --run >'$log' 2>&1"
	grep -E '^(ok|FAILED|skip|    |[0-9]+ of)' "$log" || tail -n 20 "$log"
}

step_sanitizers() {
	say 'ASan and UBSan: build, unit tests, functional tests'
	try 'build with sanitizers' build sanitizers --enable-werror --enable-sanitizers --enable-fault-points
	suite sanitizers check -j"$jobs"
	try 'make release refuses this build' sh -c "make -s -C '$VRAMTAP_CACHE/build/sanitizers' release 2>&1 | grep -q 'makes no program to publish'"
	[ -z "${VRAMTAP_SOAK:-}" ] || static_only=
	functional sanitizers check-functional "LEFT_OUT=$static_only"
}

# With clang: what gcc says of the same sources the step gcc has. It builds all, runs the unit tests and installs, from the archive.
step_dist() {
	say 'the distribution, with clang: make distcheck'
	build gcc --enable-werror || return
	log=$VRAMTAP_CACHE/distcheck.log
	try 'make distcheck' sh -c "cd '$VRAMTAP_CACHE/build/gcc' && make -s -j$jobs distcheck \
		DISTCHECK_CONFIGURE_FLAGS='CC=clang --enable-werror --with-cuda-headers=$CUDA_HEADERS' >'$log' 2>&1 || {
			tail -n 30 '$log'; tail -n 200 vramtap-*/_build/sub/test-suite.log; false; }"
	# Failures are one, and counted by now.
	grep -q '^# FAIL: *[1-9]' "$log" || count_suite "$log" 'clang check'
}

# What make release makes, twice; it and the package of Debian in bare roots; the program in roots of other ages. The archive is packed
# quickly, and left out is what deb.sh does.
step_packages() {
	say 'packages: made, installed in bare roots, and the program with old and other C libraries'
	build gcc --enable-werror || return
	try 'make release' sh -c "make -s -C '$VRAMTAP_CACHE/build/gcc' release PARTS='archive wheel image' XZ_OPT=-1 >'$VRAMTAP_CACHE/release.log' 2>&1 || {
		tail -n 20 '$VRAMTAP_CACHE/release.log'; false; }"
	package_test rpm.sh
	package_test reproducible.sh --quick
	package_test spack.py
	package_test release.py
	try 'the package of Debian, and lintian' sh "$here/tests/packages/deb.sh"
	prepared
	package_test installed.py
	package_test old_libc.py
}

# package_test SCRIPT [ARGUMENT]: in the build, with the wheel that was made.
package_test() {
	try "tests/packages/$1" in_release "$@"
}

in_release() (
	cd "$VRAMTAP_CACHE/build/gcc" || return
	VRAMTAP_BUILD_DIR=$PWD
	VRAMTAP_SOURCE_DIR=$here
	VRAMTAP_WHEEL=$(echo "$PWD"/release/*.whl)
	export VRAMTAP_BUILD_DIR VRAMTAP_SOURCE_DIR VRAMTAP_WHEEL
	script=$here/tests/packages/$1
	shift
	case $script in
	*.py) timeout 600 python3 -B "$script" "$@" ;;
	*) timeout 600 sh "$script" "$@" ;;
	esac
)

begin=$(date +%s)
times=$(mktemp)
trap 'rm -f "$times"' EXIT
mkdir -p "$VRAMTAP_CACHE/build"
deps=$(sh "$here/scripts/deps.sh" test) || {
	printf 'some packages are missing; what needs them will fail or be skipped\n'
}
CUDA_HEADERS=$(printf '%s\n' "$deps" | sed -n 's/^CUDA_HEADERS=//p')
prepare
for step in $steps; do
	"step_$step"
done
prepared

say 'the slowest tests'
sort -rn "$times" | head -10

say "finished in $(($(date +%s) - begin)) s"
[ -z "$problems" ] || printf 'what went wrong:%s\n' "$problems"
printf '%s passed, %s failed, %s skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" = 0 ]
