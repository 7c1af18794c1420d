"""Runs a program in a pseudo-terminal of 80x24, types keys, prints what the screen shows after each.

terminal.py KEYS PROGRAM ARGUMENT...: screens are separated by form feeds; the last line says how the program ended. Instead of
the key "!" SIGTERM is sent, and the last line says whether the terminal is as it was, too.
"""
import fcntl, os, pty, re, select, signal, struct, sys, termios, time

COLUMNS, ROWS = 80, 24
screen = [[" "] * COLUMNS for _ in range(ROWS)]
row = column = 0
raw = b""
whole = b""


def show(data):
    """Cursor movements and text, as crossterm writes them; attributes are passed over."""
    global row, column, raw, whole
    whole += data
    raw += data
    text = raw.decode("utf-8", "ignore")
    raw = b""
    for match in re.finditer(r"\x1b\[([?0-9;]*)([a-zA-Z])|\x1b.|([^\x1b])", text, re.S):
        numbers, letter, character = match.groups()
        if letter == "H":
            row, column = [int(n) - 1 for n in (numbers or "1;1").split(";")]
        elif letter == "J":
            for line in screen:
                line[:] = [" "] * COLUMNS
        elif character == "\r":
            column = 0
        elif character == "\n":
            row += 1
        elif character:
            if not (row < ROWS and column < COLUMNS):
                sys.exit(f"written at {row},{column}, outside of the screen")
            screen[row][column] = character
            column += 1


def read_for(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if select.select([terminal], [], [], 0.05)[0]:
            try:
                data = os.read(terminal, 65536)
            except OSError:
                return
            if not data:
                return
            show(data)


child, terminal = pty.fork()
if child == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    os.environ["TERM"] = "xterm"
    os.execvp(sys.argv[2], sys.argv[2:])
read_for(1.5)
for key in sys.argv[1]:
    os.kill(child, signal.SIGTERM) if key == "!" else os.write(terminal, key.encode())
    read_for(0.7)
    print("\n".join("".join(line).rstrip() for line in screen) + "\f", end="")
_, status = os.waitpid(child, 0)
line = [os.waitstatus_to_exitcode(status)]
if "!" in sys.argv[1]:
    cooked = termios.tcgetattr(terminal)[3] & termios.ICANON and termios.tcgetattr(terminal)[3] & termios.ECHO
    line.append("as it was" if cooked and b"\x1b[?1049l" in whole else "left as it is")
print("\nexit", *line)
