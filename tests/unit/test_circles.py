# SPDX-License-Identifier: Apache-2.0
"""tests/unit/circles.py finds a circle, and nothing where there is none."""
import os
import shlex
import subprocess
import tempfile
import unittest

import circles

CC = shlex.split(os.environ.get("CC", "cc"))


class Circles(unittest.TestCase):
    def setUp(self):
        top = tempfile.TemporaryDirectory()
        self.addCleanup(top.cleanup)
        self.source, self.build = os.path.join(top.name, "source"), os.path.join(top.name, "build")

    def add(self, path, text, objects=(".o",)):
        """A source, and the objects that the build has of it."""
        full = os.path.join(self.source, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="ascii") as out:
            out.write(text)
        for suffix in objects:
            built = os.path.join(self.build, os.path.splitext(path)[0] + suffix)
            os.makedirs(os.path.dirname(built), exist_ok=True)
            subprocess.run([*CC, "-c", "-o", built, full], check=True)

    def check(self, **exceptions):
        return circles.check(self.source, self.build, {room.replace("_", "/"): why for room, why in exceptions.items()})

    def test_two(self):
        self.add("src/room/a.c", "void b(void); void a(void) { b(); }")
        self.add("src/room/b.c", "void a(void); void b(void) { a(); }")
        self.assertEqual(self.check(), ["src/room: a circle of 2 files", "    a uses of b: b", "    b uses of a: a"])

    def test_table(self):
        """A function in a table, and data, are uses, too."""
        self.add("src/room/a.c", "extern int data; void a(void) { data = 1; }")
        self.add("src/room/b.c", "void a(void); int data; void (*const table[])(void) = { a };")
        self.assertEqual(self.check()[0], "src/room: a circle of 2 files")

    def test_round_three(self):
        """a, b, c and back; d uses them and e is used by them, and neither is of the circle."""
        self.add("src/room/a.c", "void b(void); void a(void) { b(); }")
        self.add("src/room/b.c", "void c(void); void e(void); void b(void) { c(); e(); }")
        self.add("src/room/c.c", "void a(void); void c(void) { a(); }")
        self.add("src/room/d.c", "void a(void); void d(void) { a(); }")
        self.add("src/room/e.c", "void e(void) { }")
        self.assertEqual(self.check(), ["src/room: a circle of 3 files", "    a uses of b: b", "    b uses of c: c",
                                        "    c uses of a: a"])

    def test_none(self):
        """One way only; functions of one name that are static; a circle between rooms is for layers.sh."""
        self.add("src/room/a.c", "void b(void); static void same(void) { b(); } void a(void) { same(); }")
        self.add("src/room/b.c", "void far(void); static void same(void) { far(); } void b(void) { same(); }")
        self.add("src/other/far.c", "void a(void); void far(void) { a(); }")
        self.assertEqual(self.check(), [])

    def test_architectures(self):
        """Of what each has in a folder of its own, one is built; what only one has must be."""
        self.add("src/room/arch/one/live.c", "void live(void) { }")
        self.add("src/room/arch/two/live.c", "void live(void) { }", ())
        self.assertEqual(self.check(), [])
        self.add("src/room/arch/two/more.c", "void more(void) { }", ())
        self.assertEqual(self.check(), ["src/room/arch/two/more: no object of it in the build"])

    def test_helper(self):
        """Of a source that is built twice, each object counts; that of a test does not."""
        self.add("helper/a.c", "void b(void); void a(void) { \n#ifdef B\n b(); \n#endif\n }", (".helper.o",))
        self.add("helper/b.c", "void a(void); void b(void) { a(); }", (".helper.o", ".recorder.o"))
        subprocess.run([*CC, "-c", "-DB", "-o", os.path.join(self.build, "helper/test-a.o"),
                        os.path.join(self.source, "helper/a.c")], check=True)
        self.assertEqual(self.check(), [])
        subprocess.run([*CC, "-c", "-DB", "-o", os.path.join(self.build, "helper/a.recorder.o"),
                        os.path.join(self.source, "helper/a.c")], check=True)
        self.assertEqual(self.check()[0], "helper: a circle of 2 files")

    def test_assembly(self):
        """It is one with the C that it calls back, but for others as any file."""
        self.add("src/room/entry.S", ".globl entry\nentry: call back\n.data\n.quad far\n")
        self.add("src/room/a.c", "void entry(void); void back(void) { } void a(void) { entry(); }")
        self.add("src/room/far.c", "void far(void) { }")
        self.assertEqual(self.check(), [])
        self.add("src/room/far.c", "void a(void); void far(void) { a(); }")
        self.assertEqual(self.check(), ["src/room: a circle of 2 files", "    a+entry uses of far: far",
                                        "    far uses of a+entry: a"])

    def test_exceptions(self):
        self.add("src/room/a.c", "void b(void); void a(void) { b(); }")
        self.add("src/room/b.c", "void a(void); void b(void) { a(); }")
        self.assertEqual(self.check(src_room="for now"), [])
        self.add("src/room/b.c", "void b(void) { }")
        self.assertIn("src/room has no circle any more", self.check(src_room="for now")[0])
        self.assertIn("there is no room src/gone", self.check(src_gone="for now")[0])

    def test_not_looked_at(self):
        """A source without an object fails, an object without a source (of an older build) does not count."""
        self.assertIn("no source with an object", self.check()[0])
        self.add("src/room/a.c", "void b(void); void a(void) { b(); }")
        self.add("src/room/b.c", "void a(void); void b(void) { a(); }")
        os.unlink(os.path.join(self.source, "src/room/b.c"))
        self.assertEqual(self.check(), [])
        self.add("src/room/c.c", "void c(void) { }", ())
        self.assertEqual(self.check(), ["src/room/c: no object of it in the build"])


if __name__ == "__main__":
    unittest.main()
