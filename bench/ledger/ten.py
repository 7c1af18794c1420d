#!/usr/bin/env python3
"""Of run.sh's ten.json: how far apart ten senders started, and whether what each sent is what was received of it."""
import json
import sys

for line in sys.stdin:
    row = json.loads(line)["rows"][0]
    many = row["many"]
    skew = many["start_skew_s"]
    sent = sum(agent["sent_bytes"] for agent in many["agents"])
    received = sum(agent["received_bytes"] for agent in many["agents"])
    apart = [agent["agent"] for agent in many["agents"] if agent["sent_bytes"] != agent["received_bytes"]]
    what = "datagrams" if row.get("datagrams") else "in bursts" if many.get("incast") else "full speed"
    last = many.get("incast") and f'; last byte after {1e3 * many["incast"]["until_last_byte_s"]["median"]:.2f} ms (median)' or ""
    print(
        f'{what}: {len(many["agents"])} agents, {row["repeats"]} repeats, start within {1e3 * skew["median"]:.3f} ms '
        f'(least {1e3 * skew["min"]:.3f}, most {1e3 * skew["max"]:.3f}); sent {sent}, received {received} bytes, '
        f'{len(apart)} agents differ; Jain {many["jain"]:.4f}{last}'
    )
