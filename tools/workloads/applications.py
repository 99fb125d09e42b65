"""Databases and applications that are recorded, in the same way as those of programs.py. A stand-in is named as such."""

import glob
import multiprocessing
import os
import random
import sqlite3
import subprocess
import sys

import browser
import onefold
from debian import sh

HERE = os.path.dirname(os.path.abspath(__file__))


# PostgreSQL, which calls fdatasync on its own log.


def postgres(root, command):
    """Runs a line of bash as the user of the database, with its programs in the path."""
    places = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    if not places:
        raise onefold.Failed("PostgreSQL is not installed (apt-get install postgresql)")
    base = os.path.join(root, "pg")
    # The mode is trust, because nobody else reaches a socket in a directory of its own.
    line = f"set -e; export PATH={places[-1]}:$PATH PGDATA={base}/data PGHOST={base}; {command}"
    sh(f"cd {base}; su postgres -s /bin/bash -c '{line}'")


SERVER = '-o "-k $PGHOST -c listen_addresses= -c checkpoint_timeout=30s" -l $PGHOST/log -w -t 120'


def pgbench_setup(root, _cache):
    # Only its creator may enter the folder of the recording.
    sh(f"chmod 711 {root} {root}/..; mkdir {root}/pg; chown postgres {root}/pg")
    postgres(
        root,
        f"initdb -A trust >/dev/null; pg_ctl start {SERVER} >/dev/null; pgbench -q -i -s 10 postgres 2>/dev/null;"
        " pg_ctl stop -m fast >/dev/null",
    )


def pgbench(root, _cache):
    """Runs TPC-B-like transactions: one client, then eight whose commits coincide."""
    loads = ("-c 1 -t 4000", "-c 8 -j 2 -t 1000")
    load = "; ".join(f"pgbench {load} postgres >/dev/null 2>&1" for load in loads)
    postgres(root, f"pg_ctl start {SERVER} >/dev/null; {load}; pg_ctl stop -m fast >/dev/null")


# A browser.

PAGES = 12


def browse_setup(root, _cache):
    browser.write_pages(root, PAGES)


def browse(root, _cache):
    """Runs a headless browser with profile and cache on the device, started again for each page."""
    program = browser.program()
    if not program:
        raise onefold.Failed(browser.MISSING)
    browser.show_pages(program, root, PAGES)


# Vehicle counting: the packages come from PyPI, into a folder of their own.


def vision(cache):
    place = os.path.join(cache, "vision")
    if not os.path.exists(os.path.join(place, "cv2")):
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--target", place, "opencv-python-headless", "numpy"], check=True)
    return place


def vehicle_setup(_root, cache):
    vision(cache)


def vehicle(root, cache):
    script = os.path.join(HERE, "vehicle.py")
    subprocess.run([sys.executable, script, root], env={**os.environ, "PYTHONPATH": vision(cache)}, check=True)


# Applications like those of a phone.

WORDS = (
    "the a to of you on my is are we see at home later ok thanks when where photo call meet tomorrow train lunch work bus late soon yes no"
).split()


def application(root, number):
    """Runs an application: messages in an SQLite store, settings rewritten as a whole, thumbnails in a cache, sometimes a photo."""
    draw = random.Random(number)
    home = os.path.join(root, f"app{number}")
    os.makedirs(os.path.join(home, "cache"))
    store = sqlite3.connect(os.path.join(home, "store.db"), isolation_level=None, timeout=60)
    store.execute(f"PRAGMA journal_mode={('WAL', 'TRUNCATE', 'PERSIST', 'WAL', 'DELETE', 'WAL')[number % 6]}")
    store.execute(f"PRAGMA synchronous={('FULL', 'FULL', 'NORMAL')[number % 3]}")
    store.execute("CREATE TABLE message (id INTEGER PRIMARY KEY, who INTEGER, at INTEGER, body TEXT, state TEXT)")
    store.execute("CREATE INDEX by_who ON message (who, at)")
    settings = {f"setting.{name}": draw.randrange(1000) for name in range(60)}
    for step in range(300):
        store.execute("BEGIN")
        for _ in range(draw.randint(1, 3)):
            body = " ".join(draw.choice(WORDS) for _ in range(draw.randint(3, 40)))
            message = (draw.randrange(20), 1_700_000_000 + step, body)
            store.execute("INSERT INTO message (who, at, body, state) VALUES (?, ?, ?, 'new')", message)
        store.execute("UPDATE message SET state = 'read' WHERE id = ?", (draw.randint(1, step + 1),))
        store.execute("COMMIT")
        if step % 5 == 0:
            settings[f"setting.{draw.randrange(60)}"] = draw.randrange(1000)
            with open(os.path.join(home, "settings.xml.new"), "w", encoding="ascii") as file:
                lines = "".join(f'  <int name="{name}" value="{value}" />\n' for name, value in settings.items())
                file.write("<map>\n" + lines + "</map>\n")
                file.flush()
                os.fsync(file.fileno())
            os.rename(file.name, os.path.join(home, "settings.xml"))
        if step % 4 == 0:
            # They have the size of a thumbnail, and compress as little; the applications fetch the same ones.
            with open(os.path.join(home, "cache", f"{step}"), "wb") as file:
                file.write(random.Random(step // 8).randbytes(draw.randint(3, 30) << 10))
        if step % 60 == 30:
            with open(os.path.join(home, f"photo{step}.jpg"), "wb") as file:
                file.write(draw.randbytes(draw.randint(1, 3) << 20))
                file.flush()
                os.fsync(file.fileno())
    store.close()


def phone_mix(root, _cache):
    """Runs six of them at a time."""
    running = [multiprocessing.Process(target=application, args=(root, number)) for number in range(6)]
    for process in running:
        process.start()
    for process in running:
        process.join()
        if process.exitcode != 0:
            raise onefold.Failed(f"an application ended with {process.exitcode}")


# The format is that of programs.py. A program without a shipped trace is not compared.
APPLICATIONS = {
    "pgbench": (3, pgbench_setup, pgbench, None, "PostgreSQL under pgbench, one client and eight (needs postgresql)"),
    "browse": (2, browse_setup, browse, None, "headless browser over other local pages than 04_browse_firefox (needs firefox-esr)"),
    "vehicle": (2, vehicle_setup, vehicle, None, "vehicle counting as in 05_vehicle, over drawn traffic (needs OpenCV from PyPI)"),
    "phone-mix": (3, lambda _root, _cache: None, phone_mix, None, "processes like a phone's applications, others than in 10_phone_mix"),
}
