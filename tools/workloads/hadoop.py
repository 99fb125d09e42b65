"""Hadoop in local mode: grep over the kernel's documentation, with all temporary files on the device. The jars come from Maven Central."""

import glob
import os
import shutil
import subprocess

import onefold
from debian import sh

VERSION = "3.3.6"
POM = """<project><modelVersion>4.0.0</modelVersion><groupId>x</groupId><artifactId>x</artifactId><version>1</version><dependencies>
{}</dependencies></project>
"""
NEEDED = ("hadoop-common", "hadoop-mapreduce-client-jobclient", "hadoop-mapreduce-client-common", "hadoop-mapreduce-examples")
# The pattern is the paper's (OrderMergeDedup, section 4.1).
PATTERN = "dedup[a-z]*"


def jars(cache):
    """Returns the folder of the jars, which it fills first."""
    place = os.path.join(cache, "hadoop")
    if not glob.glob(os.path.join(place, "hadoop-mapreduce-examples-*.jar")):
        if not shutil.which("mvn") or not shutil.which("java"):
            raise onefold.Failed("Java or Maven is not installed (apt-get install default-jre-headless maven)")
        one = "<dependency><groupId>org.apache.hadoop</groupId><artifactId>{}</artifactId><version>{}</version></dependency>\n"
        os.makedirs(place, exist_ok=True)
        with open(os.path.join(place, "pom.xml"), "w", encoding="ascii") as file:
            file.write(POM.format("".join(one.format(name, VERSION) for name in NEEDED)))
        sh(f"cd {place}; mvn -q -B dependency:copy-dependencies -DoutputDirectory={place} -DincludeScope=runtime")
    return place


def documentation():
    """Returns the kernel's documentation, whose files the package has compressed."""
    places = sorted(glob.glob("/usr/share/doc/linux-doc-*/Documentation"))
    if not places:
        raise onefold.Failed("the kernel's documentation is not installed (apt-get install linux-doc)")
    return places[-1]


def setup(root, cache):
    """Puts the documentation on the device, each file as it is in the kernel's tree."""
    jars(cache)
    sh(f"cp -rL --no-preserve=all {documentation()} {root}/in; find {root}/in -name '*.gz' -exec gunzip {{}} +; mkdir -p {root}/tmp/java")


def grep(root, cache):
    """Runs the two jobs of Hadoop's example, in which each file is a map task."""
    settings = {
        "hadoop.tmp.dir": f"{root}/tmp",
        "mapreduce.cluster.local.dir": f"{root}/tmp/local",
        "mapreduce.input.fileinputformat.input.dir.recursive": "true",
    }
    # A map task clears this buffer in memory, 100 MiB by default, which no task here fills: a smaller one saves time and changes no file.
    settings["mapreduce.task.io.sort.mb"] = 8
    options = " ".join(f"-D{name}={value}" for name, value in settings.items())
    # The counters that the virtual machine keeps for others are in no file system of ours.
    java = f"java -Xmx1g -XX:-UsePerfData -Djava.io.tmpdir={root}/tmp/java -cp '{jars(cache)}/*'"
    sh(
        f"cd {root}; HADOOP_USER_NAME=root {java} org.apache.hadoop.examples.ExampleDriver grep {options}"
        f" file://{root}/in file://{root}/out '{PATTERN}' >{root}/log 2>&1",
        timeout=3000,
    )
    if not os.path.exists(os.path.join(root, "out", "_SUCCESS")):
        raise onefold.Failed("Hadoop did not finish its jobs")


def versions():
    """Returns what the trace is made with."""
    words = ["dpkg-query", "-W", "-f", "${Package} ${Version}\\n", documentation().split("/")[4], "openjdk-*-jre-headless"]
    found = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    packages = [line for line in found.splitlines() if " " in line.strip()]
    return {"pattern": PATTERN, "modules": [f"org.apache.hadoop {VERSION}"], "packages": packages}


# The format is that of programs.py.
HADOOP = {
    "hadoop-local": (4, setup, grep, "06b_hadoop_local", "Hadoop, grep over the kernel's documentation (needs java, mvn and linux-doc)")
}
