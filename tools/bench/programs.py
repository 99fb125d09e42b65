"""The programs of live-workloads: their setup, and the measured part. A stand-in is named as such."""

import http.server
import os
import shutil
import threading
import urllib.request

from block import call, debian, onefold  # isort: skip (tells Python of tools/kit)

import browser

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
# This outlives a run: a base system and packages are fetched once.
CACHE = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "bench-cache")
PACKAGES = ("git", "python3", "vim", "perl", "gcc")


class Missing(Exception):
    """Something that a program needs is not available here."""


class SqliteLoad:
    """Fills a table with two indexes row by row: first with a rollback journal, then with a write-ahead log; each transaction is
    durable."""

    name = "sqlite-load"
    ROWS = 600

    def __init__(self, seed):
        self.seed = seed

    def setup(self, path):
        pass

    def run(self, path):
        script = (
            "import random, sqlite3, sys\n"
            "path, rows, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])\n"
            "draw = random.Random(seed)\n"
            "for mode in ('delete', 'wal'):\n"
            "    base = sqlite3.connect(f'{path}/{mode}.db', isolation_level=None)\n"
            "    base.execute(f'pragma journal_mode={mode}')\n"
            "    base.execute('pragma synchronous=full')\n"
            "    base.execute('create table messages (id integer primary key, thread integer, sent integer, body text)')\n"
            "    base.execute('create index by_thread on messages (thread, sent)')\n"
            "    base.execute('create index by_time on messages (sent)')\n"
            "    for n in range(rows):\n"
            "        base.execute('begin')\n"
            "        for _ in range(3):\n"
            "            body = ' '.join("
            "draw.choice(('lorem', 'ipsum', 'dolor', 'sit', 'amet')) + str(draw.randrange(99)) for _ in range(60))\n"
            "            base.execute('insert into messages (thread, sent, body) values (?, ?, ?)', (draw.randrange(40), n, body))\n"
            "        base.execute('update messages set body = body || ? where id = ?', ('.', draw.randrange(3 * n + 3)))\n"
            "        base.execute('commit')\n"
            "    assert base.execute('select count(*) from messages').fetchone() == (3 * rows,)\n"
            "    base.close()\n"
        )
        call("/usr/bin/python3", "-c", script, path, self.ROWS, self.seed)


def base_system():
    """Returns the path of a tar of a minimal system with packages that were fetched but not installed."""
    archive = os.path.join(CACHE, f"{debian.release()}.tar")
    os.makedirs(CACHE, exist_ok=True)
    if not os.path.exists(archive) and not shutil.which("debootstrap"):
        raise Missing("debootstrap is not installed")
    try:
        debian.base_system(archive, PACKAGES)
    except onefold.Failed as error:
        raise Missing(f"no base system from {debian.mirror()}: {error}") from error
    return archive


class PackageInstallation:
    """Runs apt-get install in a chroot, from packages that are there already."""

    name = "package-installation"

    def __init__(self, seed):
        self.archive = base_system()

    def setup(self, path):
        debian.unpack(self.archive, path)

    def run(self, path):
        debian.chroot(path, f"apt-get install -y --no-install-recommends --no-download {' '.join(PACKAGES)}")


def mirror_copy():
    """Copies the index files of the suite, as they are on the mirror."""
    place = os.path.join(CACHE, "mirror")
    mirror, base = debian.mirror(), f"dists/{debian.release()}"
    for name in ("InRelease", "main/binary-amd64/Packages.xz", "main/i18n/Translation-en.xz"):
        path = os.path.join(place, base, name)
        if not os.path.exists(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            try:
                urllib.request.urlretrieve(f"{mirror}/{base}/{name}", path + ".part")
            except OSError as error:
                raise Missing(f"{mirror}/{base}/{name}: {error}") from error
            os.rename(path + ".part", path)
    return place


class PackageIndexUpdate:
    """Runs apt-get update in a chroot, from a mirror on this machine."""

    name = "package-index-update"

    def __init__(self, seed):
        self.archive, self.mirror = base_system(), mirror_copy()

    def setup(self, path):
        debian.unpack(self.archive, path)
        shutil.rmtree(os.path.join(path, "var/lib/apt/lists"))
        os.makedirs(os.path.join(path, "var/lib/apt/lists/partial"))

    def run(self, path):
        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(handler, *words):
                super().__init__(*words, directory=self.mirror)

            def log_message(handler, *_):
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            source = f"deb http://127.0.0.1:{server.server_port} {debian.release()} main\n"
            with open(os.path.join(path, "etc/apt/sources.list"), "w", encoding="ascii") as file:
                file.write(source)
            options = ("Dir::Etc::sourceparts=-", "Acquire::http::Proxy=false", "Acquire::By-Hash=no", "Acquire::Check-Valid-Until=false")
            debian.chroot(path, f"apt-get {' '.join(f'-o {option}' for option in options)} update")
            server.shutdown()
        if not any(name.endswith("_Packages") for name in os.listdir(os.path.join(path, "var/lib/apt/lists"))):
            raise onefold.Failed("apt-get update left no package lists")


class Browsing:
    """Runs a headless browser with profile and cache on the device, over local pages: it is started again for each page."""

    name = "browsing"
    PAGES = 6

    def __init__(self, seed):
        self.browser = browser.program()
        if not self.browser:
            raise Missing(browser.MISSING)
        self.seed = seed

    def setup(self, path):
        browser.write_pages(path, self.PAGES)

    def run(self, path):
        browser.show_pages(self.browser, path, self.PAGES)


PROGRAMS = {"sqlite": SqliteLoad, "update": PackageIndexUpdate, "install": PackageInstallation, "browsing": Browsing}
