"""A server that takes every hint about a file, or accepts the question and never answers.

usage: hint_server.py SOCKET takes|slow COUNT

SOCKET is the path of a control socket. The file COUNT has the number of questions at the end, by SIGTERM.
"""

import os
import signal
import socket
import sys
import threading

asked = 0
counting = threading.Lock()


def answer(connection, takes):
    """Reads one question, and answers it or waits until the client has gone."""
    global asked
    with connection:
        line = b""
        while not line.endswith(b"\n"):
            more = connection.recv(4096)
            if not more:
                return
            line += more
        with counting:
            asked += 1
        try:
            if takes:
                connection.sendall(b'{"ok":null}\n')
            connection.recv(1)
        except OSError:
            # The client has lost its patience.
            pass


def serve(listener, takes):
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=answer, args=(connection, takes), daemon=True).start()


def main():
    path, state, count = sys.argv[1:]
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(4096)
    os.chmod(path, 0o600)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    threading.Thread(target=serve, args=(listener, state == "takes"), daemon=True).start()
    print("ready", flush=True)
    signal.sigwait([signal.SIGTERM])
    with open(count, "w", encoding="ascii") as file:
        print(asked, file=file)


main()
