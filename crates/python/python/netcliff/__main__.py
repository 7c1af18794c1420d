"""``python -m netcliff run FILE --local N | --scheduler ADDRESS``: an experiment on a Dask cluster."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import netcliff


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m netcliff", description="netcliff from Python")
    parser.add_argument("--version", action="version", version=netcliff.__version__)
    run = parser.add_subparsers(dest="command", required=True).add_parser("run", help="an experiment on a Dask cluster")
    run.add_argument("file", help="the experiment: a TOML file, or the name of one that netcliff brings along")
    place = run.add_mutually_exclusive_group(required=True)
    place.add_argument("--local", type=int, metavar="N", help="start N worker processes on this machine")
    place.add_argument("--scheduler", metavar="ADDRESS", help="a Dask scheduler, such as tls://host:8786")
    run.add_argument("--store", metavar="FILE", help="keep each record as it comes")
    run.add_argument("--resume", action="store_true", help="go on with the newest unfinished run (with --store)")
    run.add_argument("--engine", action="append", default=[], help="model or sim, instead of what the file says")
    run.add_argument("--seed", type=int)
    run.add_argument("--precision", metavar="SHARE")
    run.add_argument("--packets", type=int)
    run.add_argument("--json", action="store_true", help="one record a line")
    return parser


def _client(args: argparse.Namespace) -> Any:
    from distributed import Client, LocalCluster

    if args.scheduler:
        return Client(args.scheduler)
    # Bound to this host only; no dashboard port is opened.
    place: dict[str, Any] = {"host": "127.0.0.1", "dashboard_address": None}
    return Client(LocalCluster(n_workers=args.local, threads_per_worker=1, **place))


def main() -> int:
    """Exit 0 done, 1 points, store or cluster failed, 2 wrong usage."""
    args = _arguments().parse_args()
    try:
        from netcliff import dask
        from netcliff.sweeps import plan

        asked = plan(args.file, engines=args.engine, seed=args.seed, precision=args.precision, packets=args.packets)
        with _client(args) as client:
            result = dask.gather(asked, client, store=args.store, resume=args.resume, progress=True)
            if args.local:
                client.shutdown()
    except (netcliff.UsageError, netcliff.UnsupportedError) as error:
        print(f"netcliff: {error}", file=sys.stderr)
        return 2
    except ImportError as error:
        print(f"netcliff: {error}; install the extra: pip install 'netcliff[dask]'", file=sys.stderr)
        return 2
    # A StoreError is an OSError, and so is a scheduler that cannot be reached.
    except (OSError, dask.VersionError) as error:
        print(f"netcliff: {error}", file=sys.stderr)
        return 1
    for _, state, why in result.missing:
        print(f"netcliff: {state}: {why}", file=sys.stderr)
    if args.json:
        for record in result.records():
            print(record.to_json())
    elif result.run is not None:
        print(f"netcliff: kept as run {result.run}", file=sys.stderr)
    return 1 if any(state == "failed" for _, state, _ in result.missing) else 0


if __name__ == "__main__":
    sys.exit(main())
