#!/usr/bin/env python3
"""Makes docs/example-report of a report: its pages and its figures by replay, its charts as pictures, and a README that shows them.

A browser shows the report's pages as they are. Where only Markdown and pictures are shown, README.md has the missed targets and the charts.
results.json.zst is everything that was measured, of which the pages can be made again. The count of rows that every page begins with comes
from the report, and goes into the README of the project, too. --pages-alone leaves the results out, where they are of several programs.
"""

import html
import json
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OUT = os.path.join(ROOT, "docs", "example-report")
README = os.path.join(ROOT, "README.md")
# The count in the README of the project, before the link to the example.
COUNTED = re.compile(r"\d+ rows: [^(|]*(?=\(\[an example\])")
PAGES = ("index.html", "smartdedup.html", "hints.html", "app-dedupe.html")
LISTS = ("results.csv", "hints.csv", "app-dedupe.csv")
STORED = (
    ", and results.json.zst everything that the pages are made of: `onefold-lab report --stored docs/example-report/results.json.zst "
    "--no-replay` makes them again"
)
CHART = re.compile(r'<svg viewBox="0 0 (\d+) (\d+)"(.*?)</svg>', re.DOTALL)
TITLE = re.compile(r'<title id="(.*)-title">(.*)</title>')


def pictures(page):
    """Yields the name, the title and the picture of each chart of a page."""
    for found in CHART.finditer(page):
        width, height, rest = found.groups()
        name, title = TITLE.search(rest).groups()
        picture = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            f'font-family="sans-serif" font-size="12"{rest.replace("the table below", "the table of the page")}'
        )
        white = f'</desc>\n<rect width="{width}" height="{height}" fill="#fff"/>'
        yield name, html.unescape(title), picture.replace("</desc>", white, 1) + "</svg>\n"


def cell(text):
    return str(text).replace("|", "\\|")


def table(heads, rows):
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join("| " + " | ".join(cell(text) for text in line) + " |\n" for line in lines)


def row(target):
    return [target["name"], target["source"], round(target["value"], 4), target["unit"], target["target"]]


def by_revisions(names):
    return f", by revision {' and '.join(names)}" if names else ""


def count_in_readme(count):
    """Puts the count into the line of the project's README about the report."""
    with open(README, encoding="utf-8") as file:
        text = file.read()
    counted, lines = COUNTED.subn(f"{count} ", text)
    if lines != 1:
        sys.exit(f"picture: {lines} lines of README.md have the count of the report instead of one")
    with open(README, "w", encoding="utf-8") as file:
        file.write(counted)


def readme(report, charts, is_stored):
    made, targets = report["made"], report["targets"]
    missed = [target for target in targets if not target["holds"]]
    out = [
        f"# An example of the report\n\n{report['count']}. ",
        "`./dev bench papers` has made this report, and `./dev picture --report` this folder of it. [index.html](index.html) has "
        "OrderMergeDedup's evaluation, [smartdedup.html](smartdedup.html) SmartDedup's, [hints.html](hints.html) that of Using Hints and "
        "[app-dedupe.html](app-dedupe.html) APP-Dedupe's, to be opened in a browser; [results.csv](results.csv), [hints.csv](hints.csv) "
        f"and [app-dedupe.csv](app-dedupe.csv) have every replay{STORED if is_stored else ''}. [evaluating.md](../evaluating.md) says how "
        "each figure is measured.\n\n",
        f"{len(report['runs']):,} replays took {made['wall_seconds'] / 60:.0f} minutes on {made['threads']} threads"
        f"{by_revisions(made['revisions'])}. "
        f"{len(targets) - len(missed)} of {len(targets)} targets are met. Missed are:\n\n",
        table(["target", "whose", "value", "unit", "wanted"], [row(target) for target in missed]),
    ]
    for page, title, pictured in charts:
        out.append(f"\n## {title}\n")
        out += [f"\n![{what}]({name}.svg)\n" for name, what in pictured]
        out.append(f"\nThe {'figures' if pictured else 'tables'} are in [{page}]({page}).\n")
    return "".join(out)


def main(source, is_stored):
    with open(os.path.join(source, "results.json"), encoding="utf-8") as file:
        report = json.load(file)
    if not report["made"]["complete"]:
        sys.exit(f"picture: {source} has only some of the traces or schemes; make all of it by ./dev bench papers")
    shutil.rmtree(OUT, ignore_errors=True)
    os.makedirs(OUT)
    for name in LISTS:
        shutil.copy(os.path.join(source, name), OUT)
    if is_stored:
        stored = ["zstd", "-q", "-19", os.path.join(source, "results.json"), "-o", os.path.join(OUT, "results.json.zst")]
        subprocess.run(stored, check=True)
    count_in_readme(report["count"])
    charts = []
    for name in PAGES:
        with open(os.path.join(source, name), encoding="utf-8") as file:
            page = file.read()
        shutil.copy(os.path.join(source, name), OUT)
        drawn = list(pictures(page))
        for picture, _, svg in drawn:
            with open(os.path.join(OUT, picture + ".svg"), "w", encoding="utf-8") as file:
                file.write(svg)
        title = html.unescape(re.search("<title>(.*)</title>", page)[1])
        charts.append((name, title, [(picture, what) for picture, what, _ in drawn]))
    with open(os.path.join(OUT, "README.md"), "w", encoding="utf-8") as file:
        file.write(readme(report, charts, is_stored))
    print(OUT)


if __name__ == "__main__":
    words = sys.argv[1:]
    if not words or words[1:] not in ([], ["--pages-alone"]):
        sys.exit("usage: report.py DIRECTORY_OF_A_REPORT [--pages-alone]")
    main(words[0], len(words) == 1)
