"""Drives the built binary: attach, kill, check, as a user would, or as a disaster happens."""

import json
import os
import signal
import subprocess
import time

BINARY = os.environ.get("ONEFOLD", "target/release/onefold")
# The modes from which each attach draws its commit mode.
MODES = {"ordered": ["ordered"], "log": ["log"], "any": ["ordered", "log"]}


class Failed(Exception):
    """The binary refused, or printed something that it should not."""


def run(*words, check=True, timeout=300, binary=BINARY):
    """Runs a command of the binary, and returns the finished process."""
    done = subprocess.run([binary, *map(str, words)], capture_output=True, text=True, timeout=timeout, check=False)
    if check and done.returncode != 0:
        raise Failed(f"{os.path.basename(binary)} {' '.join(map(str, words))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done


def report(*words, check=True, binary=BINARY):
    """The JSON that a command prints."""
    done = run(*words, "--json", check=check, binary=binary)
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError as error:
        command = f"{os.path.basename(binary)} {' '.join(map(str, words))} --json"
        raise Failed(f"{command} printed no JSON ({error}):\n{done.stdout}{done.stderr}") from error


def server_pids(volume):
    """(supervisor or none, server) of an attached volume."""
    status = report("status", volume)
    first, server = status["attached"]["process"]["pid"], status["pid"]
    return (first if first != server else None, server)


class NbdServer:
    """`onefold attach --nbd --foreground`: one process, ours to kill."""

    def __init__(self, volume, socket, log, *options):
        self.volume = volume
        self.socket = socket
        self.log = log
        self.uri = f"nbd+unix:///?socket={socket}"
        self.began = time.monotonic()
        words = [BINARY, "attach", str(volume), f"--nbd={socket}", "--foreground", *options]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log, text=True)
        self.line = None

    def ready(self):
        """Waits until it serves."""
        self.line = self.process.stdout.readline().strip()
        if not self.line:
            raise Failed(f"onefold attach ended with {self.process.wait()}; its log is {self.log.name}")
        return self

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def detach(self):
        """Sends SIGTERM: the server commits, marks the volume clean, and ends."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=120)
        if code != 0:
            raise Failed(f"SIGTERM ended the server with {code}; its log is {self.log.name}")


class Recorder:
    """An `onefold trace record` of an attached volume that has begun."""

    def __init__(self, volume, trace):
        words = [BINARY, "trace", "record", str(volume), "--out", str(trace), "--json"]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stderr.readline()
        if not line.startswith("recording"):
            rest = self.process.stderr.read()
            raise Failed(f"onefold trace record ended with {self.process.wait()}: {line}{rest}")

    def end(self):
        """Sends SIGINT, after which the trace is complete, and returns its summary."""
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=600)
        if self.process.returncode != 0:
            raise Failed(f"onefold trace record ended with {self.process.returncode}: {err}")
        return json.loads(out)

    def kill(self):
        """Kills it if it runs; what it has not closed is lost."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def findings(volume, data=True):
    """Returns the findings of `check`: {kind: count}."""
    words = ["check", volume] + (["--data"] if data else [])
    found = report(*words, check=False)
    return found


def wait_for(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise Failed(f"waited {seconds} s for {what}")
        time.sleep(0.05)
