"""Draws docs/savings.svg of docs/savings.tsv. `--check` changes nothing, and ends with 1 if the picture is not of these figures."""

import html
import os
import sys

import savings

FILE = os.path.join(os.path.dirname(savings.FILE), "savings.svg")
WIDTH, LEFT, TOP, ROW = 940, 320, 56, 36
# The length of the bar for all that the bare device got.
FULL = 400
STYLE = (
    "text{font:14px system-ui,sans-serif;fill:#1f2328}.small{font-size:12px;fill:#59636e}.bare{fill:#d1d9e0}"
    ".volume{fill:#1a7f37}.file{fill:#0969da}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.small{fill:#9198a1}.bare{fill:#3d444d}.volume{fill:#3fb950}.file{fill:#4493f8}}"
)


def size(count):
    """Returns bytes as people read them, with three digits."""
    mib = count / (1 << 20)
    value, unit = (mib / 1024, "GiB") if mib >= 1000 else (mib, "MiB")
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"


def bar(kind, at, length, height):
    return f'<rect class="{kind}" x="{LEFT}" y="{at}" width="{length:.1f}" height="{height}"/>'


def bars(row, at):
    """Returns what lies in the bar of the bare disk."""
    if row.file is None:
        return [bar("volume", at + 5, FULL * row.ratio(), 14)]
    return [bar("volume", at + 3, FULL * row.ratio(), 8), bar("file", at + 13, FULL * row.file_ratio(), 8)]


def key(kind, at, words):
    """Returns a square with what it stands for."""
    yield f'<rect class="{kind}" x="{LEFT + at}" y="31" width="12" height="12"/>'
    yield f'<text class="small" x="{LEFT + at + 18}" y="42">{words}</text>'


def picture(rows):
    """Returns the picture as SVG: for each row a bar for the bare disk, and in it one for a volume on the disk and one for a file."""
    height = TOP + ROW * len(rows) + 8
    title = "Bytes written to the flash: with Onefold, on a disk and in a file, as a part of what ext4 writes to the bare disk"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="title">',
        f'<title id="title">{title}</title>',
        f"<style>{STYLE}</style>",
        f'<text x="{LEFT}" y="20">Bytes written to the flash</text>',
        *key("volume", 0, "Onefold on the disk"),
        *key("file", 150, "in a file on ext4"),
        *key("bare", 280, "bare ext4"),
    ]
    for number, row in enumerate(rows):
        at = TOP + ROW * number
        share = round(100 * row.ratio())
        shares, sizes, longest = f"{share} %", size(row.volume), row.ratio()
        if row.file is not None:
            shares += f", in a file {round(100 * row.file_ratio())} %"
            sizes += f" and {size(row.file)}"
            longest = max(longest, row.file_ratio())
        end = LEFT + FULL * max(longest, 1)
        lines += [
            f'<text x="{LEFT - 12}" y="{at + 18}" text-anchor="end">{html.escape(row.words)}</text>',
            bar("bare", at, FULL, 24),
            *bars(row, at),
            f'<text x="{end + 8:.1f}" y="{at + 12}">{shares}</text>',
            f'<text class="small" x="{end + 8:.1f}" y="{at + 27}">{sizes} of {size(row.bare)}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


def main():
    drawn = picture(savings.read())
    if sys.argv[1:] == ["--check"]:
        with open(FILE, encoding="utf-8") as file:
            if file.read() != drawn:
                print("docs/savings.svg is not of docs/savings.tsv: run ./dev picture --draw", file=sys.stderr)
                return 1
        return 0
    with open(FILE, "w", encoding="utf-8") as file:
        file.write(drawn)
    print(f"drawn: {os.path.relpath(FILE)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
