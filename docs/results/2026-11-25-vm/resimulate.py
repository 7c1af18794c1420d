#!/usr/bin/env python3
"""resimulate.py NETCLIFF FINDING CHECK,... LATENCY,...: the checks of a finding as measured, as they were simulated then, and with the same costs on a
kernel before 6.5 (`ksoftirqd=true`) with an interrupt latency of so much: at the three loads below the cliff, at the measured cliff and at
1.5 times that."""

import json
import subprocess
import sys
import tempfile


def value(figure):
    return figure["value"] if isinstance(figure, dict) else figure


def host_file(costs, latency):
    with tempfile.NamedTemporaryFile("w", suffix=".toml", delete=False) as file:
        for key, cost in {**costs, "interrupt_latency": latency}.items():
            if cost is not None:
                file.write(f"{key} = {json.dumps(cost)}\n")
    return file.name


def simulated(netcliff, host, scheme, load):
    command = [netcliff, "simulate", "--host", host, "--scheme", scheme + ("" if "ksoftirqd" in scheme else ",ksoftirqd=true"), "--rate", f"{load:.0f}pps", "--size", "64B", "--json"]
    told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return told["outcome"]


def text(outcome):
    keys = [("interrupts_per_s", "interrupts/s"), ("packets_per_poll", "packets a poll"), ("throughput_pps", "delivered")]
    return ", ".join(f"{value(outcome[key]):.4g} {name}" for key, name in keys if value(outcome.get(key)) is not None)


def main():
    netcliff, name, checks, latencies = sys.argv[1:]
    for check in json.load(open(name))["checks"]:
        if check["name"] not in checks.split(","):
            continue
        cliff = value(check["cliff_pps"]["wire"])
        print(f"{name} {check['name']}: cliff measured {cliff:.0f} pps, simulated then {value(check['cliff_pps']['sim']):.0f} pps")
        below = {(point["engine"], round(point["load_pps"])): point["outcome"] for point in check["below"]}
        past = check["delivered_at_1_5_pps"]
        told = {load: {engine: text(outcome) for (engine, at), outcome in below.items() if at == load} for _, load in below}
        told[round(cliff)] = {}
        told[round(1.5 * cliff)] = {engine: f"{value(past[engine]):.0f} delivered" for engine in ("wire", "sim") if past[engine]}
        for load, by in told.items():
            print(f"  {load} pps")
            for engine, words in (("wire", "measured"), ("sim", "simulated then")):
                if engine in by:
                    print(f"    {words + ':':<24}{by[engine]}")
            for latency in latencies.split(","):
                outcome = simulated(netcliff, host_file(check["host"], latency), check["scheme"], load)
                print(f"    {'latency ' + latency + ':':<24}{text(outcome)}")


main()
