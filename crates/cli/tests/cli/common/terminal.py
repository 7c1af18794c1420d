"""Runs a program in a pseudo-terminal of 80x24, types keys, prints what the screen shows after each.

terminal.py STEPS PROGRAM ARGUMENT...: steps are separated by commas, each a key, or a key=WORDS that its screen must show before
the next key is typed (within 30 s: a loaded machine takes its time). Before the first key the screen must show the first step,
which is =WORDS. Screens are separated by form feeds; the last line says how the program ended. Instead of the key "!" SIGTERM
is sent, and the last line says whether the terminal is as it was, too.
"""
import codecs, fcntl, os, pty, re, select, signal, struct, sys, termios, time

COLUMNS, ROWS = 80, 24
screen = [[" "] * COLUMNS for _ in range(ROWS)]
row = column = 0
raw = ""
decoder = codecs.getincrementaldecoder("utf-8")("ignore")
whole = b""


def show(data):
    """Cursor movements and text, as crossterm writes them; attributes are skipped."""
    global row, column, raw, whole
    whole += data
    # What a read cut in two waits for the rest.
    text = raw + decoder.decode(data)
    cut = re.search(r"\x1b(\[[?0-9;]*)?$", text)
    raw = text[cut.start() :] if cut else ""
    text = text[: len(text) - len(raw)]
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


PATIENCE_S = 30


def shown():
    return "\n".join("".join(line).rstrip() for line in screen)


def read_until(words):
    """Reads until the screen shows the words and nothing more comes for a moment; without words, until the end."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if select.select([terminal], [], [], 0.05)[0]:
            try:
                data = os.read(terminal, 65536)
            except OSError:
                return
            if not data:
                return
            show(data)
        elif words and words in shown():
            return
    sys.exit(f"no {words!r} within {PATIENCE_S} s:\n{shown()}")


child, terminal = pty.fork()
if child == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    os.environ["TERM"] = "xterm"
    os.execvp(sys.argv[2], sys.argv[2:])
first, *steps = sys.argv[1].split(",")
read_until(first.lstrip("="))
for step in steps:
    key, _, words = step.partition("=")
    os.kill(child, signal.SIGTERM) if key == "!" else os.write(terminal, key.encode())
    read_until(words)
    print(shown() + "\f", end="")
_, status = os.waitpid(child, 0)
line = [os.waitstatus_to_exitcode(status)]
if "!" in sys.argv[1]:
    cooked = termios.tcgetattr(terminal)[3] & termios.ICANON and termios.tcgetattr(terminal)[3] & termios.ECHO
    line.append("as it was" if cooked and b"\x1b[?1049l" in whole else "left as it is")
print("\nexit", *line)
