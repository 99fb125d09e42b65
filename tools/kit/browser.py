"""A headless browser with profile and cache in a folder of its own, over local pages."""

import os
import random
import shutil
import subprocess

from onefold import Failed

MISSING = "firefox-esr is not installed (apt-get install firefox-esr)"


def program():
    """Returns the path of the browser; None if there is none."""
    return shutil.which("firefox-esr") or shutil.which("firefox")


def write_pages(root, count):
    """Writes pages with text, pictures, and a script that stores what it drew; they are the same each time."""
    pages = os.path.join(root, "pages")
    os.makedirs(pages)
    os.makedirs(os.path.join(root, "home"))
    for page in range(count):
        draw = random.Random(page)
        pictures = "".join(f'<canvas id="c{n}" width="600" height="400"></canvas>' for n in range(4))
        script = (
            "for (const c of document.querySelectorAll('canvas')) { const d = c.getContext('2d');"
            f" for (let i = 0; i < 2000; i++) {{ d.fillStyle = `hsl(${{i * 7 + {page}}} 80% 50%)`;"
            " d.fillRect(i * 37 % 600, i * 91 % 400, 20, 20); }"
            " localStorage.setItem(c.id + location, c.toDataURL().slice(0, 20000)); }"
        )
        body = " ".join(f"word{draw.randrange(997)}" for _ in range(6000))
        with open(os.path.join(pages, f"{page}.html"), "w", encoding="ascii") as file:
            file.write(f"<html><body>{pictures}<p>{body}</p><script>{script}</script></body></html>")


def show_pages(browser, root, count):
    """Starts the browser again for each page."""
    home = os.path.join(root, "home")
    profile = os.path.join(home, "profile")
    os.makedirs(profile, exist_ok=True)
    environment = {**os.environ, "HOME": home, "XDG_CACHE_HOME": os.path.join(home, "cache"), "MOZ_HEADLESS": "1"}
    for page in range(count):
        shot = os.path.join(home, f"{page}.png")
        words = [browser, "--headless", "--profile", profile, "--screenshot", shot, f"file://{root}/pages/{page}.html"]
        subprocess.run(words, env=environment, timeout=300, check=True, capture_output=True)
        if not os.path.getsize(shot):
            raise Failed(f"{shot} is empty")
