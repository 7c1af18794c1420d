"""Runs a program in a pseudo-terminal that goes away under it, and says how it ended.

terminal_gone.py HOW PROGRAM ARGUMENT...: `hangup`: the terminal is its own and goes, which sends SIGHUP; `no-signal`: it is nobody's, so
that no signal is sent; `unread`: it stays, nobody reads what is written to it, and SIGTERM is sent; `huge`: it stays, says that it has
30000 columns and rows, and SIGTERM is sent. Prints `ended CODE SECONDS`, or what
CPU time it took meanwhile where it had to be killed.
"""
import os, pty, select, signal, subprocess, sys, time

WAIT_S = 6

how, command = sys.argv[1], sys.argv[2:]
terminal, theirs = pty.openpty()
os.environ["TERM"] = "xterm"
if how == "huge":
    import fcntl, struct, termios
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30000, 30000, 0, 0))


def own_terminal():
    os.setsid()
    import fcntl, termios
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


child = subprocess.Popen(
    command,
    stdin=theirs,
    stdout=theirs,
    stderr=theirs,
    preexec_fn=own_terminal if how == "hangup" else os.setsid,
)
os.close(theirs)
# Until it draws.
until = time.monotonic() + (1.5 if how != "unread" else 0.3)
while time.monotonic() < until:
    if select.select([terminal], [], [], 0.05)[0]:
        try:
            os.read(terminal, 65536)
        except OSError:
            break
if child.poll() is not None:
    print("left before", child.returncode)
    sys.exit()
if how == "huge":
    child.send_signal(signal.SIGTERM)
elif how == "unread":
    # What it wants to write is more than the terminal holds in the end.
    time.sleep(4)
    child.send_signal(signal.SIGTERM)
else:
    os.close(terminal)
began = time.monotonic()
while child.poll() is None and time.monotonic() - began < WAIT_S:
    time.sleep(0.02)
if child.poll() is None:
    fields = open(f"/proc/{child.pid}/stat").read().rsplit(")", 1)[1].split()
    ticks = int(fields[11]) + int(fields[12])
    child.kill()
    child.wait()
    print("killed after", WAIT_S, "s and", ticks / os.sysconf("SC_CLK_TCK"), "s of CPU time")
else:
    print("ended", child.returncode, round(time.monotonic() - began, 2))
