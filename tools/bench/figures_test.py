"""Tests of figures.py, in a repository of their own: python3 tools/bench/figures_test.py."""

import os
import subprocess
import tempfile
import unittest

import figures


class Recording(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        self.write("docs/figures.tsv", "# date\n")
        self.write("engine/lib.rs", "one\n")
        self.git("init", "--quiet")
        self.commit()

    def git(self, *words):
        names = ["-c", "user.name=test", "-c", "user.email=test@example.invalid", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *names, *words], cwd=self.root, check=True, capture_output=True)

    def commit(self):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "A commit")

    def write(self, name, text):
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def rows(self):
        with open(os.path.join(self.root, figures.TABLE), encoding="utf-8") as file:
            return [line.rstrip("\n").split("\t") for line in file][1:]

    def test_a_figure_is_appended_with_all_that_says_where_it_is_from(self):
        table = figures.Table(self.root)
        table.add({"name": "units", "value": 1.25, "unit": "units/unit", "target": "<= 1.6"}, "./dev bench units --seed 1")
        table.add({"name": "plain", "value": 763640.0, "unit": None}, "./dev bench plain")
        first, second = self.rows()
        self.assertRegex(first[0], r"^\d{4}-\d\d-\d\d$")
        self.assertRegex(first[1], r"^[0-9a-f]{12}$")
        self.assertEqual(first[4:], ["units", "1.25", "units/unit", "<= 1.6", "./dev bench units --seed 1"])
        self.assertEqual(second[4:], ["plain", "763640", "none", "none", "./dev bench plain"])

    def test_code_that_no_commit_has_is_refused_by_name(self):
        self.write("engine/lib.rs", "two\n")
        self.write("engine/new.rs", "three\n")
        with self.assertRaisesRegex(figures.Refused, "engine/lib.rs, engine/new.rs"):
            figures.Table(self.root)

    def test_pages_may_differ_from_the_commit(self):
        self.write("docs/plan.md", "changed\n")
        self.write("CHANGELOG.md", "changed\n")
        figures.Table(self.root).add({"name": "units", "value": 1}, "./dev bench units")
        figures.Table(self.root).add({"name": "units", "value": 2}, "./dev bench units")
        self.assertEqual([row[5] for row in self.rows()], ["1", "2"])

    def test_a_figure_of_another_commit_than_the_one_that_is_there_now_is_refused(self):
        table = figures.Table(self.root)
        self.write("engine/lib.rs", "two\n")
        self.commit()
        with self.assertRaisesRegex(figures.Refused, "units is not recorded"):
            table.add({"name": "units", "value": 1}, "./dev bench units")
        self.assertEqual(self.rows(), [])

    def test_figures_of_several_lines_and_those_of_a_report_are_read(self):
        report = '{\n  "version": 1,\n  "targets": [\n    {"name": "a"},\n    {"name": "b"}\n  ]\n}\n'
        found = list(figures.reports(['{"name": "c"}\n', *report.splitlines(keepends=True)]))
        self.assertEqual([[figure["name"] for figure in many] for _, many in found], [["c"], ["a", "b"]])
        self.assertEqual("".join(text for text, _ in found), '{"name": "c"}\n' + report)
        with self.assertRaisesRegex(figures.Refused, "no figure: half"):
            list(figures.reports(["half\n"]))

    def test_a_folder_without_history_is_refused(self):
        with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(figures.Refused, "git status failed"):
            figures.Table(folder)

    def test_features_are_named_whether_the_processor_has_them_or_not(self):
        path = os.path.join(self.root, "cpuinfo")
        with open(path, "w", encoding="utf-8") as file:
            file.write("model name\t: A Processor\nflags\t\t: sse avx2\n\nmodel name\t: A Processor\n")
        name, features = figures.processor(path)
        self.assertEqual(name, "A Processor")
        self.assertRegex(features, r"^\d+ cores, avx2, no avx512, no sha$")


if __name__ == "__main__":
    unittest.main()
