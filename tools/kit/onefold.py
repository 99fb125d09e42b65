"""Drives the built binary: attach, kill, check, as a user would, or as a disaster happens."""

import json
import os
import signal
import subprocess
import time

BINARY = os.environ.get("ONEFOLD", "target/release/onefold")
LABORATORY = os.environ.get("ONEFOLD_LAB", "target/release/onefold-lab")
# The exit code of a command that found damage.
DAMAGED = 6
# The niceness of a recorder that must miss nothing.
HURRIED = -15
# The modes from which each attach draws its commit mode.
MODES = {"ordered": ["ordered"], "log": ["log"], "any": ["ordered", "log"]}


class Failed(Exception):
    """The binary refused, or printed something that it should not."""


def program_of(words):
    """Returns the program that has a command: the laboratory slows stores down, and does everything with traces but recording."""
    is_of_traces = words[:1] == ("trace",) and words[1] not in ("record", "mark")
    return LABORATORY if is_of_traces or "--device-model" in words else BINARY


def run(*words, check=True, timeout=300, binary=None):
    """Runs a command of the binary that has it, and returns the finished process."""
    binary = binary or program_of(words)
    done = subprocess.run([binary, *map(str, words)], capture_output=True, text=True, timeout=timeout, check=False)
    if check and done.returncode != 0:
        raise Failed(f"{os.path.basename(binary)} {' '.join(map(str, words))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done


def report(*words, check=True, binary=None):
    """The JSON that a command prints."""
    binary = binary or program_of(words)
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
        words = [program_of(options), "attach", str(volume), f"--nbd={socket}", "--foreground", *options]
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

    def forget(self):
        """Nothing is left after a kill: the process was all there is."""

    def detach(self):
        """Sends SIGTERM: the server commits, marks the volume clean, and ends."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=120)
        if code != 0:
            raise Failed(f"SIGTERM ended the server with {code}; its log is {self.log.name}")


class NbdVolume:
    """`onefold attach --nbd`: a server under a supervisor, which starts another one when it ends."""

    def __init__(self, volume, socket, *options):
        self.volume = volume
        self.uri = f"nbd+unix:///?socket={socket}"
        run("attach", volume, f"--nbd={socket}", *options)
        self.supervisor = supervisor_of(volume)

    def kill(self):
        kill_processes(self.supervisor)

    def forget(self):
        """Clears away what a kill has left, while the store can be read."""
        forget_dead(self.volume)

    def detach(self):
        run("detach", self.volume)


def supervisor_of(volume):
    return report("status", volume)["attached"]["process"]["pid"]


def kill_processes(supervisor):
    """Kills a supervisor and its server, and returns their number."""
    # It is stopped first: otherwise it replaces the server. That dies first.
    os.kill(supervisor, signal.SIGSTOP)
    wait_for(lambda: state_of(supervisor) == "T", 10, "the supervisor to stop")
    servers = children_of(supervisor)
    for pid in [*servers, supervisor]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    return 1 + len(servers)


def state_of(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return file.read().rpartition(")")[2].split()[0]


def children_of(pid):
    found = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/children", encoding="utf-8") as file:
            found += map(int, file.read().split())
    return found


def forget_dead(volume):
    """Has the system forget an attachment whose processes were killed, and waits until nothing uses the store any more."""
    run("detach", volume, check=False)
    wait_for(lambda: report("status", volume).get("attached") is None, 60, "the dead server's device to go")


class Recorder:
    """An `onefold trace record` of an attached volume, or with the option --disk of any disk, that has begun."""

    def __init__(self, volume, trace, *options):
        what = [] if volume is None else [str(volume)]
        words = [BINARY, "trace", "record", *what, "--out", str(trace), "--json", *options]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stderr.readline()
        if not line.startswith("recording"):
            rest = self.process.stderr.read()
            raise Failed(f"onefold trace record ended with {self.process.wait()}: {line}{rest}")

    def hurry(self):
        """Gives its threads a high priority instead of their low one, so that it keeps up with programs on a busy machine."""
        for thread in map(int, os.listdir(f"/proc/{self.process.pid}/task")):
            os.sched_setscheduler(thread, os.SCHED_OTHER, os.sched_param(0))
            os.setpriority(os.PRIO_PROCESS, thread, HURRIED)

    def end(self):
        """Sends SIGINT, after which the trace is complete, and returns its summary."""
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=600)
        if self.process.returncode != 0:
            raise Failed(f"onefold trace record ended with {self.process.returncode}: {err}")
        return json.loads(out)

    def kill(self):
        """Kills it if it runs; its last second is lost."""
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
