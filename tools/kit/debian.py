"""A minimal Debian of this machine's release, for programs that work in a chroot; packages come from this machine's own sources."""

import os
import shutil
import subprocess

from onefold import Failed


def sh(command, **more):
    """Runs a line of bash; its output is in the exception if it fails."""
    done = subprocess.run(["bash", "-euc", command], capture_output=True, text=True, check=False, **more)
    if done.returncode != 0:
        raise Failed(f"{command}\nended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def chroot(root, command):
    """Runs a line of bash inside a tree, with nothing of this machine's environment but its proxies."""
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C", "HOME": "/root"}
    proxies = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
    done = subprocess.run(["chroot", root, "bash", "-euc", command], capture_output=True, text=True, check=False, env=environment | proxies)
    if done.returncode != 0:
        raise Failed(f"in the chroot: {command}\nended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def release():
    """Returns the name of this machine's release."""
    with open("/etc/os-release", encoding="utf-8") as file:
        values = dict(line.rstrip().split("=", 1) for line in file if "=" in line)
    return values.get("VERSION_CODENAME", "").strip('"')


def mirror():
    """Returns the source of Debian's main archive on this machine."""
    words = ["apt-get", "indextargets", "--format", "$(ORIGIN) $(COMPONENT) $(REPO_URI)", "Created-By: Packages"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        origin, component, place = line.split(" ", 2)
        if origin == "Debian" and component == "main" and "security" not in place:
            return place.rstrip("/")
    return "http://deb.debian.org/debian"


def base_system(archive, fetched=()):
    """Makes a tar of the minimal system if there is none yet, with the packages `fetched` in its cache, not installed."""
    if os.path.exists(archive):
        return
    tree = f"{archive}.tree"
    shutil.rmtree(tree, ignore_errors=True)
    try:
        sh(f"debootstrap --variant=minbase --include=ca-certificates {release()} {tree} {mirror()}")
        # It has the machine's own sources and keys, because its packages may come from elsewhere; not its settings, which change what apt
        # writes.
        sh(
            f"rm -rf {tree}/etc/apt/sources.list; for d in sources.list.d trusted.gpg.d keyrings auth.conf.d; do"
            f" [ -d /etc/apt/$d ] && mkdir -p {tree}/etc/apt/$d && cp -rL /etc/apt/$d/. {tree}/etc/apt/$d/; done;"
            f" if [ -s /etc/apt/sources.list ]; then cp /etc/apt/sources.list {tree}/etc/apt/; fi;"
            f" apt-config dump | grep -E '^Acquire::(Check-|https?::Proxy)' >{tree}/etc/apt/apt.conf.d/90acquire || true;"
            f" cp -rLn /usr/share/keyrings/. {tree}/usr/share/keyrings/; cp -L /etc/resolv.conf /etc/hosts {tree}/etc/;"
            f" cp -rL --remove-destination /etc/ssl/certs/. {tree}/etc/ssl/certs/"
        )
        if fetched:
            chroot(tree, f"apt-get update && apt-get install -y --no-install-recommends --download-only {' '.join(fetched)}")
        sh(f"tar -C {tree} -cf {archive}.part . && mv {archive}.part {archive}")
    finally:
        shutil.rmtree(tree, ignore_errors=True)


def unpack(archive, root):
    """Unpacks such a tar, with the devices that apt needs."""
    sh(
        f"tar -C {root} -xpf {archive} && mkdir -p {root}/proc {root}/dev;"
        f" test -c {root}/dev/null || mknod -m 666 {root}/dev/null c 1 3;"
        f" test -c {root}/dev/urandom || mknod -m 666 {root}/dev/urandom c 1 9"
    )
