"""Changes of a volume: `set` and `grow`, carried out or cut off, and the facts that it has to show afterwards.

`Changes.known` has the facts that the volume may show. A command that ends with 0 is durable and leaves one possibility; one that was cut
off leaves two, until a command or a server has flushed what it found.
"""

import os
import shutil
import subprocess
import time

import backing
import onefold
from oracle import BLOCK, Violation

MIB = 1 << 20
# A volume grows about fourteen times; then its table of regions is full.
GROWTHS_MAX = 12
DEFAULTS = {
    "--memory": ("16M", "48M"),
    "--commit-period": ("200", "2000"),
    "--anticipation": ("0", "2"),
    "--noncritical-delay": ("0", "3000"),
    "--when-full": ("wait=30", "wait=90"),
}


def create(path, mib, scratch, *options):
    """Makes a volume that takes a part of a larger store, and shows its clients less than would fit."""
    new = os.path.join(scratch, "new")
    onefold.run("create", new, "--sparse", "--size", f"{mib}M", "--logical", f"{mib - 2 - mib // 64}M", *options)
    backing.copy(new, path)
    os.unlink(new)


def facts(report):
    """The facts in a report of `set`."""
    volume = {name: report["volume"][name] for name in ("label", "uuid", "algorithm", "sector_bytes", "device_bytes", "logical_bytes")}
    return volume | report["defaults"]


class Changes:
    def __init__(self, disk, draw, counts):
        self.disk = disk
        self.volume = volume = disk.path
        self.random = draw
        self.counts = counts
        self.known = [facts(onefold.report("set", volume))]
        self.growths = 0

    def look(self):
        """Checks the facts that a volume shows that is not attached."""
        found = facts(onefold.report("set", self.volume))
        if found not in self.known:
            raise Violation(f"the volume shows {found}, and may show {self.known}")
        return found

    def settle(self):
        """The same, when whatever it shows is durable."""
        self.known = [self.look()]

    def opened(self):
        """Checks what an attached volume shows, which its opening has flushed. Returns its logical blocks."""
        volume = onefold.report("status", self.volume)["volume"]
        fits = [known for known in self.known if all(volume.get(name, value) == value for name, value in known.items())]
        if not fits:
            raise Violation(f"the attached volume shows {volume}, and may show {self.known}")
        self.known = fits
        return volume["logical_bytes"] // BLOCK

    def carry_out(self, words, change, disturb):
        """Runs a command that changes a volume that is not attached, and perhaps ends it, or the power, under way."""
        after = [change(known) for known in self.known]
        process = subprocess.Popen([onefold.BINARY, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if disturb:
            time.sleep(self.random.uniform(0, 0.015))
            disturb(process)
        _, complaint = process.communicate(timeout=120)
        if process.returncode == 0:
            self.known = after
            return True
        if words[0] == "set" and process.returncode == onefold.DAMAGED and "was not closed in order" in complaint:
            return False
        if not disturb:
            raise Violation(f"onefold {' '.join(words)} ended with {process.returncode}: {complaint}")
        self.counts["cut off"] += 1
        self.known += [known for known in after if known not in self.known]
        return False

    def set(self, disturb=None):
        """Gives the volume another label, and mostly another default."""
        label = f"label{self.random.randrange(1000)}"
        words = ["set", self.volume, "--label", label]
        changed = {"label": label}
        if self.random.random() < 0.7:
            option = self.random.choice(list(DEFAULTS))
            value = self.random.choice(DEFAULTS[option])
            words += [option, value]
            changed |= self.reported(option, value)
        is_set = self.carry_out(words, lambda known: known | changed, disturb)
        self.look()
        if not is_set and not disturb:
            # A killed server has left a journal, which belongs to the superblock as it is. The next loss of power takes the journal.
            self.counts["refused"] += 1
            self.lose_power()
            is_set = self.carry_out(words, lambda known: known | changed, None)
            self.look()
            if not is_set:
                raise Violation("set is refused, though no journal is there")
        self.counts["set"] += is_set

    @staticmethod
    def reported(option, value):
        """The same default as a report has it."""
        if option == "--memory":
            return {"memory_bytes": int(value[:-1]) * MIB}
        if option == "--when-full":
            return {"full_wait_ms": int(value.split("=")[1]) * 1000}
        return {option[2:].replace("-", "_") + "_ms": int(value)}

    def growth(self):
        """Draws a growth: the words of its command, and the sizes that it leads to. None where the volume has no room to grow."""
        before = onefold.report("status", self.volume)["volume"]
        room = os.path.getsize(self.volume) - before["device_bytes"]
        takes_more = room > 0 and self.random.random() < 0.8
        shows_more = not takes_more or self.random.random() < 0.5
        more = min(room, self.random.choice((MIB, 2 * MIB, 3 * MIB))) if takes_more else 0
        words = ["grow", self.volume, "--size", str(before["device_bytes"] + more)]
        if shows_more:
            words += ["--logical", str(before["logical_bytes"] + self.random.choice((MIB // 16, MIB // 2)))]
        volume = onefold.report(*words, "--dry-run")["volume"] if self.growths < GROWTHS_MAX else None
        # If clients saw all that fits, the load might fill the volume.
        if volume is None or volume["data_bytes"] - volume["reserve_bytes"] <= volume["logical_bytes"]:
            return None
        self.growths += 1
        return words, {name: volume[name] for name in ("device_bytes", "logical_bytes")}

    def grow(self, disturb=None):
        """Has the volume grow while it is not attached. The command that was cut off begins again, and then ends it."""
        growth = self.growth()
        if growth is None:
            return
        words, sizes = growth
        if not self.carry_out(words, lambda known: known | sizes, disturb):
            if self.random.random() < 0.5:
                return
            self.carry_out(words, lambda known: known | sizes, None)
        self.counts["grown"] += 1
        self.look()

    def begin_growth(self):
        """Has the volume begin to grow while it is attached. Returns what ends it; none where it is as large as can be."""
        growth = self.growth()
        if growth is None:
            return None
        words, sizes = growth
        self.known += [known | sizes for known in self.known]
        return subprocess.Popen([onefold.BINARY, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True), sizes

    def end_growth(self, growth, is_awaited):
        """Ends what `begin_growth` has begun, or waits for its end. Returns why the volume has not grown; nothing if it has."""
        process, sizes = growth
        if not is_awaited:
            process.terminate()
        _, complaint = process.communicate(timeout=150)
        if process.returncode == 0:
            self.known = [known for known in self.known if known.items() >= sizes.items()]
            self.counts["grown"] += 1
            self.counts["grown attached"] += 1
            return None
        self.counts["cut off"] += 1
        return f"it ended with {process.returncode}: {complaint}"

    def offline(self, noise, turns):
        """What happens to a volume that lies there as a disaster has left it: it rots, is set, grows, and loses power again."""
        events = ""
        steps = [what for what in ("rot", "set", "grow") if turns.due(what)]
        self.random.shuffle(steps)
        for step in steps:
            if step == "rot":
                events += "; " + noise.rot(self.volume)
            else:
                is_disturbed = turns.alternates(f"disturbed {step}")
                events += f"; {step}" + (", disturbed" if is_disturbed else "")
                getattr(self, step)(self.disturb if is_disturbed else None)
            if self.random.random() < 0.4:
                events += f"; offline: {self.lose_power()}"
                self.settle()
        return events

    def disturb(self, process):
        """Ends a command, or cuts the power under it."""
        if self.random.random() < 0.4:
            process.kill()
        else:
            self.lose_power(process)

    def lose_power(self, process=None):
        """Cuts the power of the whole machine, which also takes what is in memory: a process, and the run directory with a journal."""
        events = self.disk.cut()
        if process:
            process.kill()
            process.wait()
        shutil.rmtree(os.environ["ONEFOLD_RUN_DIR"], ignore_errors=True)
        self.disk.power()
        self.counts["cuts"] += 1
        return events
