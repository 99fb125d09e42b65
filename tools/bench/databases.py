"""Two databases with their data in a folder of a mounted volume, each run as a user of its own: InnoDB (MariaDB) and PostgreSQL.

The loads are bounded by transactions, not by time, and begin after the setup. Nobody reaches the servers but by a socket in their folder.
`twice` is what the server itself has counted as written twice, in blocks.
"""

import contextlib
import glob
import os
import pwd
import random
import subprocess

from block import UNIT, call, onefold

ROWS = 20_000
ROW_BYTES = 300
TRANSACTIONS = 4000
ROUNDS = 4
INNODB_PAGE, POSTGRES_PAGE = 16384, 8192
MARIADB_MISSING = "MariaDB is not installed (apt-get install mariadb-server-core mariadb-client-core)"
POSTGRES_MISSING = "PostgreSQL is not installed (apt-get install postgresql)"


class Missing(Exception):
    """A database is not on this machine."""


def by_user(user):
    """Returns the words that run a command as this user."""
    known = pwd.getpwnam(user)
    return ("setpriv", f"--reuid={known.pw_uid}", f"--regid={known.pw_gid}", "--clear-groups", "--")


def as_user(user, *words, **more):
    return call(*by_user(user), *words, **more)


def home(at, user):
    """Makes a folder for a database, which its user owns."""
    path = os.path.join(at, "database")
    os.mkdir(path)
    call("chown", user, path)
    return path


class InnoDb:
    """MariaDB with a buffer pool that holds a part of the table, so that pages go out all the time."""

    USER = "nobody"

    def __init__(self, at, protects, transactions=TRANSACTIONS):
        self.server, self.transactions = "/usr/sbin/mariadbd", transactions
        if not os.path.exists(self.server):
            raise Missing(MARIADB_MISSING)
        self.at, self.socket, self.process = home(at, self.USER), os.path.join(at, "database", "socket"), None
        self.words = [
            self.server, "--no-defaults", f"--datadir={self.at}/data", f"--socket={self.socket}", f"--pid-file={self.at}/pid",
            f"--log-error={self.at}/log", "--skip-networking", "--skip-grant-tables",
            "--innodb-buffer-pool-size=8M", "--innodb-log-file-size=8M", "--innodb-flush-log-at-trx-commit=1",
            "--innodb-flush-method=O_DIRECT", f"--innodb-doublewrite={'ON' if protects else 'OFF'}",
        ]

    def setup(self):
        install = ("mariadb-install-db", "--no-defaults", f"--datadir={self.at}/data", "--skip-test-db")
        as_user(self.USER, *install, "--auth-root-authentication-method=normal")
        self.process = subprocess.Popen([*by_user(self.USER), *self.words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        onefold.wait_for(lambda: os.path.exists(self.socket), 120, "MariaDB to serve")
        draw = random.Random(1)
        rows = (f"({row}, {draw.randrange(ROWS)}, '{draw.randbytes(ROW_BYTES // 2).hex()}')" for row in range(ROWS))
        table = "create table load_of.rows (id int primary key, number int, body varchar(400), key by_number (number)) engine=innodb;"
        self.sql(f"create database load_of; {table} insert into load_of.rows values {', '.join(rows)};")

    def sql(self, text):
        return call("mariadb", "--no-defaults", "--batch", f"--socket={self.socket}", "--max-allowed-packet=64M", input=text)

    def doublewritten(self):
        """Returns the blocks that have gone through the doublewrite buffer since the server began."""
        return int(self.sql("show global status like 'Innodb_dblwr_pages_written';").split()[-1]) * INNODB_PAGE // UNIT

    def run(self):
        draw = random.Random(2)
        change = "update load_of.rows set number = {}, body = '{}' where id = {};"
        values = ((draw.randrange(ROWS), draw.randbytes(ROW_BYTES // 2).hex(), draw.randrange(ROWS)) for _ in range(self.transactions))
        before = self.doublewritten()
        self.sql("\n".join(change.format(*value) for value in values))
        self.twice = {"blocks": self.doublewritten() - before}
        self.sql("shutdown;")
        self.process.wait(timeout=120)

    def close(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Postgres:
    """PostgreSQL under pgbench, with a checkpoint after each round."""

    USER = "postgres"

    def __init__(self, at, protects, transactions=TRANSACTIONS, **more):
        places = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
        if not places:
            raise Missing(POSTGRES_MISSING)
        self.at, self.bin, self.is_up, self.transactions = home(at, self.USER), places[-1], False, transactions
        settings = {
            "listen_addresses": "''", "unix_socket_directories": f"'{self.at}'", "full_page_writes": "on" if protects else "off",
            "checkpoint_timeout": "1d", "max_wal_size": "4GB", "shared_buffers": "32MB", "autovacuum": "off", "wal_recycle": "off",
            **more,
        }
        self.settings = "".join(f"{key} = {value}\n" for key, value in settings.items())

    def do(self, program, *words):
        return as_user(self.USER, f"{self.bin}/{program}", *words, cwd=self.at)

    def setup(self):
        self.do("initdb", "-A", "trust", "-D", f"{self.at}/data")
        with open(f"{self.at}/data/postgresql.conf", "a", encoding="ascii") as file:
            file.write(self.settings)
        self.do("pg_ctl", "start", "-D", f"{self.at}/data", "-l", f"{self.at}/log", "-w")
        self.is_up = True
        self.do("pgbench", "-q", "-i", "-s", "5", "-h", self.at, "postgres")
        self.checkpoint()

    def images(self):
        """Returns the blocks of the full pages that the log holds."""
        words = "psql", "-At", "-h", self.at, "-c", "select wal_fpi from pg_stat_wal", "postgres"
        return int(self.do(*words)) * POSTGRES_PAGE // UNIT

    def checkpoint(self):
        self.do("psql", "-q", "-h", self.at, "-c", "checkpoint", "postgres")

    def run(self):
        before = self.images()
        for at in range(ROUNDS):
            count = self.transactions // ROUNDS
            self.do("pgbench", "-n", "-c", "1", "-t", str(count), f"--random-seed={at}", "-h", self.at, "postgres")
            self.checkpoint()
        self.twice = {"blocks": self.images() - before}
        self.do("pg_ctl", "stop", "-D", f"{self.at}/data", "-m", "fast", "-w")
        self.is_up = False

    def close(self):
        if self.is_up:
            with contextlib.suppress(onefold.Failed):
                self.do("pg_ctl", "stop", "-D", f"{self.at}/data", "-m", "immediate", "-w")
