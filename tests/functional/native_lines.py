#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Source lines and inlined functions of native frames against gdb and eu-stack; debug files in all the places where they may
be; and files whose debug information is damaged."""
import contextlib
import hashlib
import json
import lzma
import os
import random
import re
import shutil
import subprocess
import time

from harness import BUILD, QUICK, VRAMTAP, Skip, check, compile_c, equal, main, scratch, target, wait_until

STACKS = os.path.join(BUILD, "tests/functional/native_stacks")

# What is inlined into what is forced, so that optimisers cannot change it; nothing is in tail position.
C_PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static volatile int sink;
#define INLINE static inline __attribute__((always_inline))
#define KEEP static __attribute__((noinline))
struct shape { int n; };
INLINE void innermost(struct shape *s)
{
	sink = s->n;
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}
INLINE void between(struct shape *s) { s->n++; innermost(s); }
KEEP _Noreturn void never_returns(struct shape *s)
{
	between(s);
	abort();
}
/* The call is the last instruction: its return address is behind the function. */
KEEP void ends_in_a_call(struct shape *s)
{
	if (sink != 77)
		never_returns(s);
	sink++;
}
INLINE int compares(const int *a, const int *b)
{
	struct shape s = { *a };

	if (*a != *b)
		ends_in_a_call(&s);
	return *a - *b;
}
KEEP int callback(const void *a, const void *b)
{
	int n = compares(a, b);

	return n + sink - sink;
}
INLINE void sorts(int *numbers)
{
	qsort(numbers, 3, sizeof(numbers[0]), callback);
	sink++;
}
int main(void)
{
	int numbers[] = { 3, 1, 2 };

	sorts(numbers);
	return numbers[0];
}
"""

CXX_PROGRAM = r"""
#include <cstdio>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>
#define INLINE inline __attribute__((always_inline))
#define KEEP __attribute__((noinline))
static volatile int sink;
namespace deep {
template <class T, int N> struct box {
	T value;
	INLINE void waits() const { sink = N; puts("ready"); fflush(stdout); while (sink != 77) pause(); }
	KEEP void opens(std::map<std::string, std::vector<T>> &m) const { m["a"].push_back(value); waits(); sink = sink + 1; }
};
}
/* Its destructor runs while an exception is in flight. */
struct waits_in_destructor {
	~waits_in_destructor()
	{
		std::map<std::string, std::vector<int>> m;
		deep::box<int, 7> b{ 3 };
		b.opens(m);
		sink = sink + 1;
	}
};
KEEP static void throws() { waits_in_destructor w; if (sink != 77) throw std::runtime_error("x"); }
int main()
{
	std::function<void(int)> f = [](int n) { if (n) throws(); sink = sink + n; };

	try { f(1); } catch (const std::exception &e) { sink = sink + 1; }
	return sink;
}
"""

# Functions whose entries are inside of another function's, and whose code is not.
NESTED_PROGRAM = r"""
#include <stdio.h>
#include <unistd.h>
static volatile int sink;
static inline __attribute__((always_inline)) void innermost(int n)
{
	sink = n;
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}
static __attribute__((noinline)) void calls(void (*f)(int)) { f(3); sink = 1; }
static __attribute__((noinline)) void has_nested(int n)
{
	__attribute__((noinline)) void nested(int m)
	{
		innermost(m + n);
		sink = 2;
	}
	calls(nested);
	sink = n;
}
int main(int argc, char **argv)
{
	(void)argv;
#pragma omp parallel num_threads(1)
	{
		has_nested(argc);
		sink = 5;
	}
	return sink;
}
"""

# The first function is left out by the linker; its lines begin at 0 and reach to where the others are.
LEFT_OUT_PROGRAM = """
#include <stdio.h>
#include <unistd.h>
static volatile int sink;
__attribute__((visibility("hidden"))) int left_out(int n)
{
""" + "\tsink += n;\n\tsink ^= 3;\n" * 2000 + r"""
	return sink;
}
static inline __attribute__((always_inline)) void innermost(void)
{
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}
__attribute__((noinline)) static void waits(void)
{
	innermost();
	sink++;
}
int main(void)
{
	waits();
	return sink;
}
"""

RUST_PROGRAM = r"""
use std::thread;
use std::time::Duration;
mod deep {
    pub struct Holder<T>(pub T);
    impl<T: Copy + Into<u64>> Holder<T> {
        #[inline(always)]
        pub fn sleeps(&self) { super::rest(self.0.into()) }
        #[inline(never)]
        pub fn goes(&self) { self.sleeps(); super::done(); }
    }
}
#[inline(never)]
fn done() { std::hint::black_box(1); }
#[inline(always)]
fn rest(n: u64) {
    println!("ready");
    thread::sleep(Duration::from_secs(n));
    std::hint::black_box(2);
}
fn main() {
    let f = |n: u32| { deep::Holder(n).goes(); std::hint::black_box(3); };
    let all: Vec<Box<dyn Fn(u32)>> = vec![Box::new(f)];
    for g in &all { g(300); }
}
"""


def need(*programs):
    for name in programs:
        if not shutil.which(name):
            raise Skip(f"no {name}")


def build(text, name, command):
    """Compiles a program with a command that takes the source and -o; returns its path, or skips."""
    directory = scratch()
    source, binary = os.path.join(directory, name), os.path.join(directory, "program")
    with open(source, "w", encoding="utf-8") as out:
        out.write(text)
    try:
        done = subprocess.run([*command, "-o", binary, source], capture_output=True, check=False)
    except FileNotFoundError:
        raise Skip(f"no {command[0]}") from None
    if done.returncode:
        raise Skip(f"{' '.join(command)} cannot build: {done.stderr.decode()[:200]}")
    return binary


@contextlib.contextmanager
def standing(argv, **kwargs):
    """A target that has come to pause() or to a sleep."""
    def waits():
        with open(f"/proc/{proc.pid}/syscall", encoding="utf-8") as file:
            return file.read().split()[0] in ("34", "35", "230")  # pause, nanosleep, clock_nanosleep

    with target(argv, ready="ready", **kwargs) as proc:
        wait_until(waits, 60, "it waits")
        yield proc


def ours(pid, *options):
    """The main thread's frames, inlined ones included: [(name, file name, line, module)]; and standard error."""
    done = subprocess.run([STACKS, *(options or ("--lines",)), str(pid)], capture_output=True, check=False, timeout=120)
    equal(done.returncode, 0, "native_stacks: " + done.stderr.decode())
    frames, inlined = [], []
    # Not splitlines(): in a damaged file a name may have a character that it counts as the end of a line, such as \x1e.
    for line in done.stdout.decode(errors="replace").split("TID ")[1].split("\n"):
        where = re.search(r" at (.*):(\d+)$", line)
        place = (os.path.basename(where.group(1)), int(where.group(2))) if where else (None, 0)
        if line.startswith("inlined "):
            inlined.append((line[8:where.start()] if where else line[8:], *place))
        elif line.startswith("#"):
            module = re.search(r" \((/.*)\+0x[0-9a-f]+\)", line)
            name = re.search(r" \[(.*)\] \(/", line) or re.match(r"#\d+\s+0x[0-9a-f]+(?: - 1)? +([^\s(-][^\s(]*) \(", line)
            frame = (name.group(1) if name else "??", *place)
            module = module.group(1) if module else None
            frames += [(*f, module) for f in [*inlined, frame]]
            inlined = []
    return frames, done.stderr.decode()


def gdb(pid):
    """What gdb says about the main thread: [(name, file name, line)], up to main()."""
    need("gdb")
    done = subprocess.run(["gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-iex", "set auto-load off", "-p", str(pid),
                           "-ex", "thread 1", "-ex", "set backtrace past-main off", "-ex", "bt"], stdin=subprocess.DEVNULL,
                          capture_output=True, check=False, timeout=300)
    frames = []
    for line in done.stdout.decode(errors="replace").splitlines():
        frame = re.match(r"#\d+\s+(?:0x[0-9a-f]+ in )?(.*?)(?: \(.*\))?(?: at (.*):(\d+)| from .*)?$", line)
        if frame:
            name, path, number = frame.groups()
            frames.append((name, os.path.basename(path) if path else None, int(number or 0)))
    check(frames, "gdb shows no frames", done.stdout, done.stderr)
    return frames


def eu_stack(pid):
    """The same, of eu-stack."""
    need("eu-stack")
    done = subprocess.run(["eu-stack", "-1", "-i", "-s", "-r", "-p", str(pid)], capture_output=True, check=False, timeout=300)
    frames = []
    for line in done.stdout.decode(errors="replace").splitlines():
        frame = re.match(r"#\d+\s+0x[0-9a-f]+(?: - 1)?\s*(\S*)", line)
        place = re.match(r"\s+(\S.*?):(\d+)(?::\d+)?$", line)
        if frame:
            frames.append((frame.group(1), None, 0))
        elif place and frames:
            frames[-1] = (frames[-1][0], os.path.basename(place.group(1)), int(place.group(2)))
    check(frames, "eu-stack shows no frames", done.stdout, done.stderr)
    return frames


def in_file(frames, name):
    return [f[:3] for f in frames if f[1] == name]


def without_arguments(name):
    """A C++ or Rust name as far as all tools write it in the same way: the last identifier."""
    name = re.sub(r"\{\{closure\}\}|\{closure[^}]*\}|\{lambda[^}]*\}|<lambda[^>]*>", "closure", name)
    while re.search(r"<[^<>]*>", name):
        name = re.sub(r"<[^<>]*>", "", name)
    return re.sub(r"\(.*", "", name).replace("$", "").split("::")[-1].strip()


def check_against(truth, pid, source, n_inlined, plain):
    """All frames of the source file, inlined or not, are the same, in the same order."""
    got, want = in_file(ours(pid)[0], source), in_file(truth(pid), source)
    if not plain:
        got = [(without_arguments(name), *rest) for name, *rest in got]
        want = [(without_arguments(name), *rest) for name, *rest in want]
    # the optimiser's copies
    want = [(re.sub(r"\.(constprop|isra|part)\.\d+", "", name), *rest) for name, *rest in want]
    equal(got, want, f"frames of {source} in {truth.__name__}")
    check(len(got) >= n_inlined, "too few frames", got)


def test_c():
    """Nested inlined functions, a call at the end of a function, a callback from libc; every way to write DWARF."""
    variants = (["gcc", "-O2", "-g"], ["gcc", "-O2", "-gdwarf-4"], ["gcc", "-O2", "-g", "-gz"], ["gcc", "-O2", "-g", "-flto"],
                ["gcc", "-O2", "-g", "-fomit-frame-pointer", "-static"], ["gcc", "-O2", "-g", "-no-pie"], ["clang", "-O2", "-g"],
                ["clang", "-O2", "-gdwarf-4", "-gz"])
    tried = 0
    for command in variants:
        with contextlib.suppress(Skip):
            binary = build(C_PROGRAM, "lines.c", command)
            with standing([binary]) as proc:
                names = [f[0] for f in in_file(ours(proc.pid)[0], "lines.c")]
                equal(names, ["innermost", "between", "never_returns", "ends_in_a_call", "compares", "callback", "sorts", "main"],
                      " ".join(command))
                check_against(gdb, proc.pid, "lines.c", 8, True)
                # eu-stack finds a unit by .debug_aranges only, and loses inlined functions in another unit
                if command[0] == "gcc" and "-flto" not in command:
                    check_against(eu_stack, proc.pid, "lines.c", 8, True)
            tried += 1
    if not tried:
        raise Skip("no compiler, or no gdb")


def test_nested():
    """Nested functions, and what gcc makes of an OpenMP region: a line of what is inlined there is not the function's own."""
    binary = build(NESTED_PROGRAM, "nested.c", ["gcc", "-O1", "-g", "-fopenmp"])
    with standing([binary]) as proc:
        frames = in_file(ours(proc.pid)[0], "nested.c")
        equal([re.sub(r"\.\d+$", "", f[0]) for f in frames],
              ["innermost", "nested", "calls", "has_nested", "main._omp_fn", "main"], "frames")
        equal([f[2] for f in frames], [f[2] for f in in_file(gdb(proc.pid), "nested.c")], "lines of gdb")


def test_left_out():
    """Lines of functions that the linker left out are not taken for those of others: better none."""
    tried = 0
    for compiler in ("gcc", "clang"):
        with contextlib.suppress(Skip):
            flags = ["-O1", "-g", "-ffunction-sections", "-Wl,--gc-sections"]
            binary = build(LEFT_OUT_PROGRAM, "left_out.c", [compiler, *flags])
            with standing([binary]) as proc:
                frames = ours(proc.pid)[0]
                names = [f[0] for f in frames]
                check(names[names.index("waits") - 1] == "innermost", "what is inlined is missing", names)
                source = LEFT_OUT_PROGRAM.splitlines()
                for name, path, line, _ in frames:
                    if path == "left_out.c":
                        expected = {"innermost": "pause();", "waits": "innermost();", "main": "waits();"}[name]
                        check(source[line - 1].strip() in (expected, "for (;;)"), "a wrong line", name, line)
            tried += 1
    if not tried:
        raise Skip("no compiler")


def test_split_dwarf():
    """The lines are in the program, the functions in another file: a line without its function would be the wrong one."""
    binary = build(C_PROGRAM, "lines.c", ["gcc", "-O2", "-g", "-gsplit-dwarf"])
    with standing([binary]) as proc:
        equal(program_names(proc.pid, binary), (["never_returns", "ends_in_a_call", "callback", "main"], False), "frames")


def test_cxx():
    """Templates, lambdas in std::function, a destructor while an exception is in flight."""
    tried = 0
    for command in (["g++", "-std=c++17", "-O2", "-g"], ["clang++", "-std=c++17", "-O2", "-g"], ["g++", "-std=c++17", "-O0", "-g"]):
        with contextlib.suppress(Skip):
            binary = build(CXX_PROGRAM, "lines.cc", command)
            with standing([binary]) as proc:
                check_against(gdb, proc.pid, "lines.cc", 5, False)
                frames = [f[0] for f in ours(proc.pid)[0]]
                check(any("box<int, 7>::waits" in f for f in frames), "no template", frames)
            tried += 1
    if not tried:
        raise Skip("no compiler, or no gdb")


def test_rust():
    """No .debug_aranges; functions in namespaces; both manglings."""
    rustc = shutil.which("rustc") or os.path.expanduser("~/.cargo/bin/rustc")
    for mangling in ("v0", "legacy"):
        command = [rustc, "-C", "opt-level=2", "-g", "-C", f"symbol-mangling-version={mangling}"]
        if mangling == "legacy":
            command += ["-Z", "unstable-options"]
            os.environ["RUSTC_BOOTSTRAP"] = "1"
        binary = build(RUST_PROGRAM, "lines.rs", command)
        with standing([binary]) as proc:
            check_against(gdb, proc.pid, "lines.rs", 5, False)
            names = [f[0] for f in ours(proc.pid)[0]]
            check(any(re.fullmatch(r"(lines|program)::deep::Holder<.*>::goes|<.*deep::Holder<.*>>::goes(::<.*>)?", n) for n in names),
                  "no demangled method", names)
            check(not any(re.search(r"::h[0-9a-f]{16}$|^_R|\$LT\$", n) for n in names), "a name is mangled", names)


# ---- separate debug files ----

def split(binary, *flags):
    """(stripped program, its debug file), both next to each other, without a link between them."""
    need("objcopy", "strip")
    directory = scratch()
    stripped, debug = os.path.join(directory, "program"), os.path.join(directory, "separate")
    subprocess.run(["objcopy", "--only-keep-debug", *flags, binary, debug], check=True)
    subprocess.run(["strip", "-o", stripped, binary], check=True)
    return stripped, debug


def add_link(stripped, debug, name, where):
    """Gives the program a .gnu_debuglink to a file with this name, and puts it into the directory `where`."""
    os.makedirs(where, exist_ok=True)
    place = os.path.join(where, name)
    shutil.copy(debug, os.path.join(os.path.dirname(stripped), name))
    subprocess.run(["objcopy", "--add-gnu-debuglink=" + os.path.join(os.path.dirname(stripped), name), stripped], check=True)
    os.unlink(os.path.join(os.path.dirname(stripped), name))
    shutil.copy(debug, place)
    return place


WHOLE = ["innermost", "between", "never_returns", "ends_in_a_call", "compares", "callback", "sorts", "main"]


def program_names(pid, binary):
    """(names of the frames in the program, whether they have lines)"""
    frames = [f for f in ours(pid)[0] if f[3] == binary]
    return [f[0] for f in frames if f[0] != "_start"], any(f[1] for f in frames)


def test_debuglink():
    """By .gnu_debuglink: next to the program and in .debug; with a build id, and without one, by checksum."""
    for flags in ([], ["-Wl,--build-id=none"]):
        binary = build(C_PROGRAM, "lines.c", ["gcc", "-O2", "-g", *flags])
        for directory in ("", ".debug"):
            stripped, debug = split(binary)
            add_link(stripped, debug, "program.debug", os.path.join(os.path.dirname(stripped), directory))
            with standing([stripped]) as proc:
                equal(program_names(proc.pid, stripped), (WHOLE, True), f"{flags} {directory}")


def test_wrong_debug_file():
    """A debug file that belongs to another build is not believed."""
    for flags in ([], ["-Wl,--build-id=none"]):
        binary = build(C_PROGRAM, "lines.c", ["gcc", "-O2", "-g", *flags])
        other = build(C_PROGRAM.replace("s->n++", "s->n += 3"), "lines.c", ["gcc", "-O2", "-g", *flags])
        stripped, debug = split(binary)
        place = add_link(stripped, debug, "program.debug", os.path.dirname(stripped))
        shutil.copy(split(other)[1], place)
        with standing([stripped]) as proc:
            names, lines = program_names(proc.pid, stripped)
            check(not lines and not set(names) - {"??"}, f"{flags}: a wrong debug file was used", names)


def test_build_id():
    """By build id, in the root directory of a process that has another one."""
    if os.geteuid() != 0:
        raise Skip("chroot() needs root")
    binary = build(C_PROGRAM, "lines.c", ["gcc", "-O2", "-g", "-static", "-Wl,--build-id"])
    stripped, debug = split(binary)
    notes = subprocess.run(["readelf", "-n", stripped], check=True, capture_output=True, text=True).stdout
    build_id = re.search(r"Build ID: ([0-9a-f]+)", notes).group(1)
    root = scratch()
    place = os.path.join(root, "usr/lib/debug/.build-id", build_id[:2], build_id[2:] + ".debug")
    os.makedirs(os.path.dirname(place))
    shutil.copy(stripped, os.path.join(root, "program"))
    # An unusable one in the way: no file, a FIFO.
    os.mkfifo(place)
    for _ in range(2):
        with standing(["/program"], preexec_fn=lambda: os.chroot(root), cwd="/") as proc:
            # as seen from here
            names, lines = program_names(proc.pid, os.path.join(root, "program"))
            if os.path.isfile(place):
                check(lines, "no lines")
                equal([n for n in names if n in WHOLE], WHOLE, "names")
            else:
                check(not lines, "lines from a FIFO")
                os.unlink(place)
                shutil.copy(debug, place)


def test_shared_debug_file():
    """dwz -m moves what several debug files have in common into one that they share, here the names of inlined functions."""
    need("dwz")
    for relative in ([], ["-r"]):
        programs = []
        for change in ("s->n++", "s->n += 3"):
            binary = build(C_PROGRAM.replace("s->n++", change), "lines.c", ["gcc", "-O2", "-g", "-Wl,--build-id"])
            programs.append(split(binary))
        directory = scratch()
        debug = []
        for i, (_, file) in enumerate(programs):
            debug.append(os.path.join(directory, f"program{i}.debug"))
            shutil.move(file, debug[-1])
        shared = os.path.join(directory, "shared")
        done = subprocess.run(["dwz", "-m", shared, *relative, *debug], capture_output=True, check=False)
        if done.returncode or not os.path.exists(shared):
            raise Skip("dwz shares nothing: " + done.stderr.decode()[:200])
        stripped = shutil.copy(programs[0][0], os.path.join(directory, "program"))
        subprocess.run(["objcopy", "--add-gnu-debuglink=" + debug[0], stripped], check=True)
        with standing([stripped]) as proc:
            equal(program_names(proc.pid, stripped), (WHOLE, True), f"{relative}")
            os.rename(shared, shared + ".away")
            check(program_names(proc.pid, stripped)[0] != WHOLE, "nothing came from the shared file")


def test_debugdata():
    """.gnu_debugdata: the symbols that .dynsym lacks, packed, as Fedora's packages have them."""
    binary = build(C_PROGRAM, "lines.c", ["gcc", "-O2", "-g"])
    stripped, debug = split(binary)
    small = debug + ".small"
    subprocess.run(["objcopy", "--strip-debug", debug, small], check=True)
    with open(small, "rb") as file:
        packed = lzma.compress(file.read())
    with open(small + ".xz", "wb") as file:
        file.write(packed)
    subprocess.run(["objcopy", "--add-section", f".gnu_debugdata={small}.xz", stripped], check=True)
    with standing([stripped]) as proc:
        names, lines = program_names(proc.pid, stripped)
        equal((names, lines), (["never_returns", "ends_in_a_call", "callback", "main"], False), "names")


def test_debuginfod():
    """Only when asked for, with the build id, and the file that comes is checked."""
    binary = build(C_PROGRAM, "lines.c", ["gcc", "-O2", "-g", "-Wl,--build-id"])
    stripped, debug = split(binary)
    directory = scratch()
    log = os.path.join(directory, "asked")
    with open(os.path.join(directory, "debuginfod-find"), "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\necho "$@" >>{log}\nif [ "$2" = "$WANTED" ]; then echo {debug}; else exit 1; fi\n')
    os.chmod(os.path.join(directory, "debuginfod-find"), 0o755)
    notes = subprocess.run(["readelf", "-n", stripped], check=True, capture_output=True, text=True).stdout
    build_id = re.search(r"Build ID: ([0-9a-f]+)", notes).group(1)
    env = dict(os.environ, PATH=directory + ":" + os.environ["PATH"], DEBUGINFOD_URLS="http://localhost:1", WANTED=build_id)

    def names(*options, environment=env):
        for _ in range(20):
            done = subprocess.run([VRAMTAP, "report", "--read-only", "--json", "-", *options, str(proc.pid)], capture_output=True,
                                  check=False, timeout=120, env=environment)
            data = json.loads(done.stdout)
            # On a busy machine the child gets too little of its time.
            if "source-lines" not in {d["code"] for d in data["diagnostics"]}:
                break
        frames = data["threads"][0]["stack"]["frames"]
        return [f["function"] for f in frames if f["module"] == "program"], data

    with standing([stripped]) as proc:
        got, _ = names()
        check(not set(got) - {None}, "names without any debug file", got)
        check(not os.path.exists(log), "a server was asked without being wanted")
        got, data = names("--debuginfod")
        equal(got[:len(WHOLE)], WHOLE, "names")
        inlined = [f["function"] for f in data["threads"][0]["stack"]["frames"] if f["kind"] == "native" and f["inlined"]]
        equal(inlined, ["innermost", "between", "compares", "sorts"], "inlined functions")
        with open(log, encoding="utf-8") as file:
            check(f"debuginfo {build_id}\n" in file.read(), "the build id was not asked for")
        _, data = names("--debuginfod", environment=dict(env, DEBUGINFOD_URLS=""))
        check("debuginfod" in {d["code"] for d in data["diagnostics"]}, "no diagnostic about missing servers")


# ---- damage ----

def sections(path, prefix):
    out = subprocess.run(["readelf", "-SW", path], check=True, capture_output=True, text=True).stdout
    found = re.findall(r"\] (\S+)\s+(?!NOBITS)\S+\s+[0-9a-f]+ ([0-9a-f]+) ([0-9a-f]+)", out)
    return [(int(offset, 16), int(size, 16)) for name, offset, size in found if name.startswith(prefix) and int(size, 16)]


def peak_memory(err):
    return int(re.search(r"VmHWM:\s*(\d+) kB", err).group(1))


def test_damaged():
    """Whatever the debug file holds: the same frames, in bounded time and memory."""
    need("readelf")
    seed = int(hashlib.sha256(str(time.time()).encode()).hexdigest()[:8], 16)
    rng = random.Random(seed)
    for flags in ([], ["-gz"]):
        binary = build(C_PROGRAM, "lines.c", ["gcc", "-O2", "-g", "-Wl,--build-id", *flags])
        stripped, debug = split(binary)
        place = add_link(stripped, debug, "program.debug", os.path.dirname(stripped))
        with open(debug, "rb") as file:
            intact = file.read()
        parts = sections(debug, ".debug")
        check(len(parts) > 4, "no sections", parts)
        with standing([stripped]) as proc:
            frames, err = ours(proc.pid, "--time", "--lines")
            want = [f[3] for f in frames]
            allowed = peak_memory(err) + 32 * 1024
            for round_ in range(60 if QUICK else 3000):
                data = bytearray(intact)
                for _ in range(rng.choice((1, 3, 30))):
                    offset, size = rng.choice(parts) if rng.random() < 0.8 else (len(data) - 4096, 4096)
                    at = offset + rng.randrange(size)
                    data[at] = rng.choice((0, 0xff, 0x7f, 0x80, rng.randrange(256)))
                if round_ % 10 == 0:
                    del data[rng.randrange(64, len(data)):]
                with open(place + ".new", "wb") as file:
                    file.write(data)
                os.rename(place + ".new", place)
                begin = time.monotonic()
                frames, err = ours(proc.pid, "--time", "--lines=2000")
                took = time.monotonic() - begin
                physical = [f[3] for f in frames]
                what = f"seed {seed}, round {round_} {flags}"
                check(physical[-3:] == want[-3:] and len(physical) > 5, what, frames)
                check(took < 60, what, "took s", took)
                check(peak_memory(err) < allowed, what, "peak memory in kB", peak_memory(err))


def test_truncated():
    """The program's file is cut while it is looked at: no crash, whatever was read."""
    binary = build(C_PROGRAM, "lines.c", ["gcc", "-O2", "-g"])
    copy = binary + ".copy"
    shutil.copy(binary, copy)
    library = compile_c("int one(void) { return 1; }", "-shared", "-fPIC", "-g")
    with standing([binary], env=dict(os.environ, LD_PRELOAD=library, LD_BIND_NOW="1")) as proc:
        os.truncate(library, 100)
        done = subprocess.run([VRAMTAP, "report", "--read-only", str(proc.pid)], capture_output=True, check=False, timeout=120)
        check(done.returncode in (0, 1), "exit code", done)


if __name__ == "__main__":
    main(globals())
