"""YCSB by its Go client, on FerretDB, which speaks MongoDB's protocol and stores in SQLite, and on PostgreSQL.

The parameters are the paper's (OrderMergeDedup, section 4.1): 100 records of ten fields of 8 KiB, 20,000 operations, one client. Workload A
is half reads, half updates of one field. The records are loaded in the setup.
"""

import os
import shutil
import signal
import socket
import subprocess

import onefold
from applications import postgres
from debian import sh

CLIENT = "github.com/pingcap/go-ycsb"
CLIENT_VERSION = "v1.0.3"
# The client's own go.mod replaces this module, which counts for the main module alone.
REPLACED = "github.com/apache/thrift => github.com/apache/thrift v0.0.0-20171203172758-327ebb6c2b6d"
SERVER = "github.com/FerretDB/FerretDB"
SERVER_VERSION = "v1.24.2"
GO = "1.24"

PARAMETERS = {
    "workload": "core",
    "recordcount": 100,
    "operationcount": 20_000,
    "fieldlength": 8192,
    "readallfields": "true",
    "readproportion": 0.5,
    "updateproportion": 0.5,
    "scanproportion": 0,
    "insertproportion": 0,
    "requestdistribution": "uniform",
    "threadcount": 1,
}
PORT = 27_117
START_SECONDS = 60


def built(cache, binary, module, version, package, source, replaced=()):
    """Builds a package of the module, or of what the source makes with it, unless it is there, and returns the path of the command."""
    place = os.path.join(cache, "go", f"{binary}-{version}")
    path = os.path.join(place, binary)
    if os.path.exists(path):
        return path
    if not shutil.which("go"):
        raise onefold.Failed(f"the Go compiler is not installed (apt-get install golang, {GO} or newer)")
    shutil.rmtree(place, ignore_errors=True)
    os.makedirs(place)
    lines = ["module built", f"go {GO}", f"require {module} {version}", *(f"replace {line}" for line in replaced)]
    for name, text in (("go.mod", "\n".join(lines) + "\n"), ("main.go", source)):
        with open(os.path.join(place, name), "w", encoding="ascii") as file:
            file.write(text)
    sh(f"cd {place}; export GOFLAGS=-mod=mod; go mod tidy -e; go build -o {path} {package}", timeout=3000)
    return path


def client(cache):
    package = f"{CLIENT}/cmd/go-ycsb"
    source = f'//go:build tools\n\npackage built\n\nimport _ "{package}"\n'
    return built(cache, "go-ycsb", CLIENT, CLIENT_VERSION, package, source, (REPLACED,))


def server(cache):
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "ferretdb.go"), encoding="ascii") as file:
        return built(cache, "ferretdb", SERVER, SERVER_VERSION, ".", file.read())


def ycsb(cache, verb, database, **more):
    """Runs the client: `load`, or `run`."""
    words = [word for name, value in {**PARAMETERS, **more}.items() for word in ("-p", f"{name.replace('__', '.')}={value}")]
    done = subprocess.run([client(cache), verb, database, *words], capture_output=True, text=True, check=False, timeout=1500)
    if done.returncode != 0 or "ERROR" in done.stdout + done.stderr:
        raise onefold.Failed(f"go-ycsb {verb} {database} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


class FerretDb:
    """A server with its data on the device, until it has ended."""

    def __init__(self, root, cache):
        place = os.path.join(root, "ferretdb")
        os.makedirs(os.path.join(place, "data"), exist_ok=True)
        words = [server(cache), f"127.0.0.1:{PORT}", os.path.join(place, "data")]
        with open(os.path.join(place, "log"), "ab") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=place)

    def __enter__(self):
        onefold.wait_for(self.answers, START_SECONDS, "FerretDB to listen")
        return {"mongodb__url": f"mongodb://127.0.0.1:{PORT}/ycsb?w=1"}

    def answers(self):
        if self.process.poll() is not None:
            raise onefold.Failed(f"FerretDB ended with {self.process.returncode}")
        with socket.socket() as to:
            return to.connect_ex(("127.0.0.1", PORT)) == 0

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=120)


def ferretdb_setup(root, cache):
    with FerretDb(root, cache) as where:
        ycsb(cache, "load", "mongodb", **where)


def ferretdb(root, cache):
    with FerretDb(root, cache) as where:
        ycsb(cache, "run", "mongodb", **where)


TO_POSTGRES = {"pg__host": "127.0.0.1", "pg__port": PORT, "pg__user": "postgres", "pg__db": "ycsb", "pg__sslmode": "disable"}
START = f'pg_ctl start -o "-k $PGHOST -p {PORT} -c listen_addresses=127.0.0.1" -l $PGHOST/log -w -t 120 >/dev/null'
STOP = "pg_ctl stop -m fast >/dev/null"


def with_postgres(root, cache, verb, first=""):
    postgres(root, f"{first}{START}")
    try:
        if first:
            postgres(root, f"createdb -p {PORT} ycsb")
        ycsb(cache, verb, "pg", **TO_POSTGRES)
    finally:
        postgres(root, STOP)


def postgres_setup(root, cache):
    # Only its creator may enter the folder of the recording.
    sh(f"chmod 711 {root} {root}/..; mkdir {root}/pg; chown postgres {root}/pg")
    with_postgres(root, cache, "load", "initdb -A trust >/dev/null; ")


def postgres_run(root, cache):
    with_postgres(root, cache, "run")


def of_ferretdb():
    """Returns what the trace is made with."""
    return {"parameters": PARAMETERS, "modules": [f"{CLIENT} {CLIENT_VERSION}", f"{SERVER} {SERVER_VERSION}"]}


def of_postgres():
    """Returns what the trace is made with."""
    words = ["dpkg-query", "-W", "-f", "${Package} ${Version}\\n", "postgresql-[0-9]*"]
    found = subprocess.run(words, capture_output=True, text=True, check=False)
    debian = [line for line in found.stdout.splitlines() if line.split()[0].removeprefix("postgresql-").isdigit() and len(line.split()) > 1]
    return {"parameters": PARAMETERS, "modules": [f"{CLIENT} {CLIENT_VERSION}"], "packages": debian}


# What the JSON beside each trace says of its programs.
VERSIONS = {"ycsb-ferretdb": of_ferretdb, "ycsb-postgres": of_postgres}


# The format is that of programs.py.
YCSB = {
    "ycsb-ferretdb": (4, ferretdb_setup, ferretdb, "07b_ycsb_ferretdb", "YCSB by go-ycsb on FerretDB over SQLite (needs go)"),
    "ycsb-postgres": (4, postgres_setup, postgres_run, "08b_ycsb_postgres", "YCSB by go-ycsb on PostgreSQL (needs go and postgresql)"),
}
