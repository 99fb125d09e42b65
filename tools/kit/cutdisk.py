"""A disk that the tests control, in a mount of its own."""

import os
import shutil
import signal
import subprocess

import onefold


class CutDisk:
    """The forgetful disk (app/examples/cutfs.rs)."""

    def __init__(self, binary, mountpoint, mib, seed):
        self.path = os.path.join(mountpoint, "cutfs")
        self.process = subprocess.Popen([binary, mountpoint, str(mib), str(seed)], stdout=subprocess.PIPE, text=True)
        self.expect("ready")

    def expect(self, start):
        line = self.process.stdout.readline().strip()
        if not line.startswith(start):
            raise onefold.Failed(f"cutfs printed '{line}' instead of '{start}'")
        return line

    def cut(self):
        self.process.send_signal(signal.SIGUSR1)
        return self.expect("cut")

    def fail(self):
        self.process.send_signal(signal.SIGHUP)
        return self.expect("failing")

    def power(self):
        """Restores the power; nothing fails any more."""
        self.process.send_signal(signal.SIGUSR2)
        self.expect("power")

    def keep(self, place):
        """Copies what it holds now to a file, which stays after its end."""
        self.power()
        shutil.copyfile(self.path, place)

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=20)
