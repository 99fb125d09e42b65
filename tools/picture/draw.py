"""Draws docs/savings.svg of docs/savings.tsv. `--check` changes nothing, and ends with 1 if the picture is not of these figures."""

import html
import os
import sys

import savings

FILE = os.path.join(os.path.dirname(savings.FILE), "savings.svg")
WIDTH, LEFT, TOP, ROW = 900, 320, 56, 36
# The length of the bar for all that the bare device got.
FULL = 400
STYLE = (
    "text{font:14px system-ui,sans-serif;fill:#1f2328}.small{font-size:12px;fill:#59636e}.bare{fill:#d1d9e0}.volume{fill:#1a7f37}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.small{fill:#9198a1}.bare{fill:#3d444d}.volume{fill:#3fb950}}"
)


def size(count):
    """Returns bytes as people read them, with three digits."""
    mib = count / (1 << 20)
    value, unit = (mib / 1024, "GiB") if mib >= 1000 else (mib, "MiB")
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"


def bar(kind, at, length, height):
    return f'<rect class="{kind}" x="{LEFT}" y="{at}" width="{length:.1f}" height="{height}"/>'


def picture(rows):
    """Returns the picture as SVG: for each row a bar for the bare device, and in it one for the volume."""
    height = TOP + ROW * len(rows) + 8
    title = "Bytes written to the flash: with Onefold, as a part of what ext4 writes to the bare device"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="title">',
        f'<title id="title">{title}</title>',
        f"<style>{STYLE}</style>",
        f'<text x="{LEFT}" y="20">Bytes written to the flash</text>',
        f'<rect class="volume" x="{LEFT}" y="31" width="12" height="12"/><text class="small" x="{LEFT + 18}" y="42">with Onefold</text>',
        f'<rect class="bare" x="{LEFT + 110}" y="31" width="12" height="12"/>'
        f'<text class="small" x="{LEFT + 128}" y="42">bare ext4</text>',
    ]
    for number, row in enumerate(rows):
        at = TOP + ROW * number
        share = round(100 * row.ratio())
        end = LEFT + FULL * max(row.ratio(), 1)
        lines += [
            f'<text x="{LEFT - 12}" y="{at + 18}" text-anchor="end">{html.escape(row.words)}</text>',
            bar("bare", at, FULL, 24),
            bar("volume", at + 5, FULL * row.ratio(), 14),
            f'<text x="{end + 8:.1f}" y="{at + 12}">{share} %</text>',
            f'<text class="small" x="{end + 8:.1f}" y="{at + 27}">{size(row.volume)} of {size(row.bare)}</text>',
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
