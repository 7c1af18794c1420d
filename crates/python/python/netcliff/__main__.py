"""``python -m netcliff run FILE --local N | --scheduler ADDRESS | --host HOST``: an experiment here, on a Dask cluster, or measured on hosts."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import netcliff

if TYPE_CHECKING:
    from netcliff.sweeps import Sweep

#: The most threads of `--local`.
MOST_THREADS = 1024
#: What Dask takes as a scheduler's address, where netcliff's digits can travel.
ADDRESS = re.compile(r"((tcp|tls)://)?(\[[0-9a-fA-F:.%]+\]|[^\s/:\[\]]+):([0-9]{1,5})")


def _threads(text: str) -> int:
    """The number of threads of `--local`."""
    count = int(text) if text.isascii() and text.isdecimal() else 0
    if not 1 <= count <= MOST_THREADS:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number of threads from 1 to {MOST_THREADS}")
    return count


def _address(text: str) -> str:
    """A scheduler's address."""
    parts = ADDRESS.fullmatch(text)
    if not parts or not 0 < int(parts[4]) < 65536:
        raise argparse.ArgumentTypeError(f"{text!r}: expected HOST:PORT, tcp://HOST:PORT or tls://HOST:PORT, such as tls://head:8786")
    return text


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m netcliff", description="netcliff from Python")
    parser.add_argument("--version", action="version", version=netcliff.__version__)
    run = parser.add_subparsers(dest="command", required=True).add_parser("run", help="an experiment here, on a Dask cluster, or measured on hosts")
    run.add_argument("file", help="the experiment: a TOML file, or the name of one that netcliff brings along")
    place = run.add_mutually_exclusive_group(required=True)
    place.add_argument("--local", type=_threads, metavar="N", help="compute on N threads of this process; no port is opened")
    place.add_argument("--scheduler", type=_address, metavar="ADDRESS", help="a Dask scheduler, such as tls://host:8786")
    place.add_argument(
        "--host", action="append", metavar="HOST",
        help="an ssh destination whose netcliff measures points of the engine wire, one at a time (repeatable); the rest is computed here",
    )  # fmt: skip
    tls = run.add_argument_group("TLS to a scheduler", "all three, as `dask worker` takes them")
    tls.add_argument("--tls-ca-file", metavar="FILE", help="whose certificates are accepted")
    tls.add_argument("--tls-cert", metavar="FILE", help="the certificate shown to the scheduler")
    tls.add_argument("--tls-key", metavar="FILE", help="its private key")
    run.add_argument("--store", metavar="FILE", help="keep each record as it comes")
    run.add_argument("--resume", action="store_true", help="go on with the newest unfinished run (with --store)")
    run.add_argument("--engine", action="append", default=[], help="model or sim, instead of what the file says")
    run.add_argument("--seed", type=int)
    run.add_argument("--precision", metavar="SHARE")
    run.add_argument("--packets", type=int)
    run.add_argument("--json", action="store_true", help="one record a line")
    return parser


def _security(args: argparse.Namespace) -> Any:
    """Dask's TLS with the files given; `None` where Dask's own configuration decides."""
    files = {"--tls-ca-file": args.tls_ca_file, "--tls-cert": args.tls_cert, "--tls-key": args.tls_key}
    encrypted = str(args.scheduler).startswith("tls://")
    if any(files.values()) and not encrypted:
        raise netcliff.UsageError(f"--scheduler {args.scheduler}: expected tls://HOST:PORT with the --tls-... files")
    if not any(files.values()):
        import dask

        if encrypted and not dask.config.get("distributed.comm.tls.ca-file", None):
            raise netcliff.UsageError(f"--scheduler {args.scheduler}: TLS needs {', '.join(files)}, or Dask's configuration of them")
        return None
    if missing := [flag for flag, path in files.items() if not path]:
        raise netcliff.UsageError(f"{', '.join(missing)}: missing; TLS needs all of {', '.join(files)}")
    for flag, path in files.items():
        if not Path(path).is_file():
            raise netcliff.UsageError(f"{flag} {path}: there is no such file; expected a PEM file")
    from distributed.security import Security

    paths = {"tls_ca_file": args.tls_ca_file, "tls_client_cert": args.tls_cert, "tls_client_key": args.tls_key}
    return Security(require_encryption=True, **paths)


def _run(args: argparse.Namespace) -> Sweep:
    from netcliff import sweeps

    asked = sweeps.plan(
        args.file, engines=args.engine, seed=args.seed, precision=args.precision, packets=args.packets, measured=bool(args.host)
    )
    if not args.scheduler:
        kept: dict[str, Any] = {"store": args.store, "resume": args.resume, "progress": True}
        return sweeps.local(asked, threads=args.local, hosts=args.host or (), **kept)
    security = _security(args)
    from distributed import Client

    from netcliff import dask

    with Client(args.scheduler, security=security) as client:
        try:
            return dask.gather(asked, client, store=args.store, resume=args.resume, progress=True)
        # Not the command line's fault, and no reason for a traceback.
        except dask.VersionError as error:
            raise OSError(error) from error


def main() -> int:
    """Exit 0 done, 1 points, store or cluster failed, 2 wrong usage."""
    args = _arguments().parse_args()
    try:
        result = _run(args)
    except (netcliff.UsageError, netcliff.UnsupportedError) as error:
        print(f"netcliff: {error}", file=sys.stderr)
        return 2
    except ImportError as error:
        print(f"netcliff: {error}; install the extra: pip install 'netcliff[dask]'", file=sys.stderr)
        return 2
    # A StoreError is an OSError, and so is a scheduler that cannot be reached.
    except OSError as error:
        print(f"netcliff: {error}", file=sys.stderr)
        return 1
    for _, state, why in result.missing:
        print(f"netcliff: {state}: {why}", file=sys.stderr)
    if args.json:
        for record in result.records():
            print(record.to_json())
    elif result.run is not None:
        print(f"netcliff: stored as run {result.run}", file=sys.stderr)
    return 1 if any(state == "failed" for _, state, _ in result.missing) else 0


if __name__ == "__main__":
    sys.exit(main())
