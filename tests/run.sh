#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds vramtap and runs every test that needs no GPU. Installs what is missing (as root or with sudo), builds outside
# the source tree, and is quick the second time.
#
# usage: run.sh [--quick | STEP...]        steps: lint clang gcc matrix sanitizers dist (default: all of them)
#   --quick         five minutes at most: one build, unit tests, and the functional scripts that tell most
#   VRAMTAP_CACHE   where builds, wheels and interpreters are kept (default: ~/.cache/vramtap)
#   VRAMTAP_SOAK=1  long forms of the soak tests
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
*) steps=${*:-lint clang gcc matrix sanitizers dist} ;;
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

# Adds the counts of an automake suite; shows its failures.
count_suite() {
	log=$1
	label=$2
	if ! [ -f "$log" ]; then
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
  $label: $((f + e)) failed"
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
		sed -n "s|^took \\([0-9]*\\) s\$|\\1 s  $name $test|p" "$VRAMTAP_CACHE/build/$name/${test%.*}.log" 2>/dev/null | tail -n 1
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
	suite "$1" check-functional -j"$jobs"
}

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
	prepared
	suite gcc check-TESTS -j"$jobs" TESTS="$quick_tests"
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
	functional gcc
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

step_clang() {
	say 'clang: build, unit tests'
	try 'build with clang' build clang --enable-werror CC=clang
	suite clang check -j"$jobs"
}

step_sanitizers() {
	say 'ASan and UBSan: build, unit tests, functional tests'
	try 'build with sanitizers' build sanitizers --enable-werror --enable-sanitizers --enable-fault-points
	suite sanitizers check -j"$jobs"
	functional sanitizers
}

# With gcc: what clang says of the same sources the step clang has.
step_dist() {
	say 'the distribution: make distcheck'
	build gcc --enable-werror || return
	log=$VRAMTAP_CACHE/distcheck.log
	try 'make distcheck' sh -c "cd '$VRAMTAP_CACHE/build/gcc' && \
		make -s -j$jobs distcheck DISTCHECK_CONFIGURE_FLAGS='--enable-werror --with-cuda-headers=$CUDA_HEADERS' \
		>'$log' 2>&1 || { tail -n 30 '$log'; false; }"
}

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
