#!/usr/bin/env python3
"""Compares the cliff of real services as measured by netcliff and by other generators, in turns.

    cliffs.py NETCLIFF PEERS DIR ROUNDS [SERVICE...]

netcliff's cliff is that of `find --quick --service --idle as-configured`, with the requests during pauses of the
service's CPU, because the other generator counts these, too. The other generator's cliff is searched between 0.8 and
1.2 of netcliff's, to 4 %: it is the highest load that still meets the same limit in more than half of two or three trials
(wrk2: in one trial). The limit for HTTP is about the median latency, because every 14 s trial of wrk2 contains pauses
of a virtual machine. redis-benchmark and memtier_benchmark are closed loops, so their greatest throughput is used. The
generator runs on CPU 0, the service on CPU 1. The services' files are written to DIR.

Needs root, the services of the table `SERVICES`, dnsperf and redis-tools. PEERS contains wrk2 (github.com/giltene/wrk2)
and memtier_benchmark (github.com/RedisLabs/memtier_benchmark)."""

import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import time

NETCLIFF, PEERS, DIR, ROUNDS, *CHOSEN = sys.argv[1:]
PEERS, DIR = pathlib.Path(PEERS).absolute(), pathlib.Path(DIR).absolute()
PAIR = str(pathlib.Path(__file__).with_name("pair.sh"))
ADDRESS = "198.18.0.2"
LEVELS = [0.8 + 0.04 * step for step in range(11)]
LOSS, LIMIT_S = 1e-4, 0.010
# A command that takes some CPU time. With a cheaper one, the generators would not reach the service's cliff.
REDIS = 'EVAL return(("x"):rep(5000):reverse():len()) 0'

NGINX = """daemon off; user root; worker_processes 1; pid {dir}/nginx.pid; error_log {dir}/error.log crit;
events {{ worker_connections 4096; }}
http {{ access_log off; keepalive_requests 1000000000;
  server {{ listen {port}; location / {{ return 200 "{body}"; }} }}
  server {{ listen 443 ssl; ssl_certificate {dir}/own.pem; ssl_certificate_key {dir}/own.key; ssl_session_cache off; ssl_session_tickets off;
    location / {{ return 200 "{body}"; }} }} }}
"""
HAPROXY = """global
  nbthread 1
defaults
  mode http
  timeout connect 1s
  timeout client 60s
  timeout server 60s
frontend all
  bind :80
  default_backend one
backend one
  http-reuse always
  server one 127.0.0.1:8080
"""
# A name server that computes a hash of each name and answers with an address.
PYTHON = """import asyncio, hashlib
TAIL = bytes.fromhex("c00c000100010000003c0004c6120001")
class Server(asyncio.DatagramProtocol):
    def connection_made(self, transport):
        self.transport = transport
    def datagram_received(self, data, peer):
        end = data.index(0, 12) + 5
        hashlib.pbkdf2_hmac("sha256", data[12:end], b"", 150)
        self.transport.sendto(data[:2] + bytes.fromhex("84000001000100000000") + data[12:end] + TAIL, peer)
async def main():
    await asyncio.get_running_loop().create_datagram_endpoint(Server, local_addr=("0.0.0.0", 53))
    await asyncio.Event().wait()
asyncio.run(main())
"""
NSD = """server:
  zonesdir: "{dir}"
  database: ""
  zonelistfile: "{dir}/zone.list"
  xfrdfile: "{dir}/xfrd.state"
  pidfile: "{dir}/nsd{port}.pid"
  username: root
  ip-address: {address}@{port}
  server-count: 1
  verbosity: 0
zone:
  name: example.com
  zonefile: zone
remote-control:
  control-enable: no
"""
UNBOUND = """server:
  interface: {interface}
  access-control: 0.0.0.0/0 allow
  username: ""
  chroot: ""
  directory: "{dir}"
  pidfile: "{dir}/unbound.pid"
  use-syslog: no
  verbosity: 0
  num-threads: 1
  do-not-query-localhost: no
  module-config: "iterator"
  cache-max-ttl: {ttl}
stub-zone:
  name: example.com
  stub-addr: 127.0.0.1@5353
remote-control:
  control-enable: no
"""


def write_files():
    DIR.mkdir(parents=True, exist_ok=True)
    names = [f"n{number}.example.com" for number in range(1000)]
    zone = "$ORIGIN example.com.\n$TTL 3600\n@ SOA ns hostmaster 1 3600 600 86400 60\n@ NS ns\nns A 198.18.0.2\n"
    files = {
        "zone": zone + "".join(f"{name}. A 192.0.2.{number % 250 + 1}\n" for number, name in enumerate(names)),
        "names.txt": "".join(f"{name} A\n" for name in names),
        "many.txt": "".join(f"{name} A\n" for name in names) * 300,
        "nsd.conf": NSD.format(dir=DIR, address=ADDRESS, port=53),
        "nsd-behind.conf": NSD.format(dir=DIR, address="127.0.0.1", port=5353),
        "unbound.conf": UNBOUND.format(dir=DIR, interface="0.0.0.0", ttl=3600),
        "resolver.conf": UNBOUND.format(dir=DIR, interface="127.0.0.1@5300", ttl=0),
        "server.py": PYTHON,
        "nginx.conf": NGINX.format(dir=DIR, port=80, body="0123456789" * 10),
        "nginx-behind.conf": NGINX.format(dir=DIR, port="127.0.0.1:8080", body="0123456789" * 10),
        "haproxy.cfg": HAPROXY,
        "redis.txt": REDIS + "\n",
    }
    for name, text in files.items():
        (DIR / name).write_text(text)
    if not (DIR / "own.pem").exists():
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", DIR / "own.key", "-out", DIR / "own.pem", "-days", "365",
                        "-subj", "/CN=own", "-addext", f"subjectAltName=IP:{ADDRESS}"], check=True, capture_output=True)


def generator(*command):
    return subprocess.run(["taskset", "-c", "0", "ip", "netns", "exec", "ncd-snd", *map(str, command)], capture_output=True, text=True, check=False).stdout


def number(pattern, text, default=None):
    match = re.search(pattern, text)
    return float(match.group(1)) if match else default


def dnsperf(rate):
    """Whether the service loses at most `LOSS` of the queries at this load; `None` if dnsperf did not send this
    load."""
    took_s = 3
    text = generator("dnsperf", "-s", ADDRESS, "-d", DIR / "many.txt", "-l", took_s, "-c", 16, "-q", 65000, "-t", 0.2, "-Q", f"{rate:.0f}")
    sent, lost = (number(pattern, text, 0) for pattern in (r"Queries sent: +(\d+)", r"Queries lost: +(\d+)"))
    if sent < 0.97 * rate * took_s:
        return None
    return lost <= LOSS * sent


def in_seconds(text):
    value, unit = re.fullmatch(r"([\d.]+)(us|ms|s|m)", text).groups()
    return float(value) * {"us": 1e-6, "ms": 1e-3, "s": 1, "m": 60}[unit]


def wrk2(scheme, *options):
    def holds(rate):
        # wrk2 calibrates for 10 s and reports only latencies measured after that.
        text = generator(PEERS / "wrk2", "-t", 1, "-c", 32, "-d", "14s", "-R", f"{rate:.0f}", "-L", *options, f"{scheme}://{ADDRESS}/")
        median = re.search(r"50\.000% +(\S+)", text)
        if not median or "Socket errors" in text or "Non-2xx" in text:
            return None
        return in_seconds(median.group(1)) <= LIMIT_S
    return holds


def memtier(protocol, port):
    def most(_):
        out = DIR / "memtier.json"
        common = [PEERS / "memtier_benchmark", "-s", ADDRESS, "-p", port, "-P", protocol, "-t", 1, "--data-size=100", "--key-maximum=1000", "--hide-histogram"]
        generator(*common, "-c", 1, "--ratio=1:0", "--key-pattern=P:P", "--requests=allkeys")
        generator(*common, "-c", 32, "--ratio=0:1", "--test-time=5", "--json-out-file", out)
        return json.loads(out.read_text())["ALL STATS"]["Totals"]["Ops/sec"]
    return most


def redis_benchmark(_):
    return number(r'0","([\d.]+)"', generator("redis-benchmark", "-h", ADDRESS, "-c", 32, "-n", 60000, "--csv", *REDIS.split()))


def counted(pid):
    """Datagrams that the server's namespace received, datagrams that it lost, and packets that the backlog of CPU 1
    dropped. Reads files, because a program started to read them would take CPU time from the server."""
    keys, values = [line.split()[1:] for line in open(f"/proc/{pid}/net/snmp") if line.startswith("Udp:")]
    udp = dict(zip(keys, map(int, values)))
    backlog = [int(line.split()[1], 16) for line in open("/proc/net/softnet_stat")]
    return udp["InDatagrams"], udp["RcvbufErrors"], backlog[1]


def resperf(rate, ramp_s=1, held_s=1):
    """Whether the server's host lost at most `LOSS` of the requests during `held_s` at the full load; `None` if resperf
    did not send this load."""
    service = int(subprocess.run(["ip", "netns", "pids", "ncd-hut"], capture_output=True, text=True, check=True).stdout.split()[0])
    command = ["taskset", "-c", "0", "ip", "netns", "exec", "ncd-snd", "resperf", "-s", ADDRESS, "-d", str(DIR / "many.txt"), "-m", f"{rate:.0f}",
               "-r", str(ramp_s), "-c", str(held_s + 1), "-C", "16", "-R", "-P", "/dev/null", "-i", "0.2"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(ramp_s + 0.35)
    before = counted(service)
    time.sleep(held_s)
    taken, full, dropped = (b - a for a, b in zip(before, counted(service)))
    # resperf would wait for answers for another 30 s.
    process.terminate()
    process.wait()
    arrived = taken + full + dropped
    return None if arrived < 0.97 * rate * held_s else full + dropped <= LOSS * arrived


WRK2, WRK2_NEW, WRK2_TLS, WRK2_TLS_NEW = LONG = [wrk2(scheme, *options) for scheme in ("http", "https") for options in ((), ("-H", "Connection: close"))]
HTTP = ["--quantile", f"0.5={LIMIT_S}s", "--arrivals", "constant"]
DNS = ["--request", f"dns:{DIR}/names.txt", "--arrivals", "constant", "--loss", str(LOSS)]
BEHIND = f"nsd -d -c {DIR}/nsd-behind.conf & "
# For each service: the command that starts it, netcliff's options, the function of the other generator, and whether
# that generator is a closed loop.
SERVICES = {
    "nsd": (f"nsd -d -c {DIR}/nsd.conf", DNS, resperf, False),
    "dnsmasq": (f"dnsmasq -k -C /dev/null -u root -R -h --auth-ttl=60 --address=/example.com/192.0.2.1", DNS, resperf, False),
    "unbound, cached": (f"{BEHIND} exec unbound -d -c {DIR}/unbound.conf", DNS, resperf, False),
    "dnsmasq, asking unbound, asking nsd": (f"{BEHIND} unbound -d -c {DIR}/resolver.conf & exec dnsmasq -k -C /dev/null -u root -R -h -c 0 -S 127.0.0.1#5300 "
                                             f"-a {ADDRESS} -z --dns-forward-max=10000", DNS, dnsperf, False),
    "Python, asyncio": (f"exec python3 {DIR}/server.py", DNS, dnsperf, False),
    "nginx, kept": (f"nginx -c {DIR}/nginx.conf", [*HTTP, "--request", "http:/"], WRK2, False),
    "nginx, new": (f"nginx -c {DIR}/nginx.conf", [*HTTP, "--request", "http:/", "--new-connections"], WRK2_NEW, False),
    "nginx, TLS kept": (f"nginx -c {DIR}/nginx.conf", [*HTTP, "--request", "https:/", "--cacert", f"{DIR}/own.pem"], WRK2_TLS, False),
    "nginx, TLS new": (f"nginx -c {DIR}/nginx.conf", [*HTTP, "--request", "https:/", "--cacert", f"{DIR}/own.pem", "--new-connections"],
                       WRK2_TLS_NEW, False),
    "haproxy, nginx": (f"nginx -c {DIR}/nginx-behind.conf & exec haproxy -db -f {DIR}/haproxy.cfg", [*HTTP, "--request", "http:/"], WRK2, False),
    "redis": (f"exec redis-server --save '' --bind 0.0.0.0 --protected-mode no --loglevel warning", ["--request", f"redis:{DIR}/redis.txt"], redis_benchmark, True),
    "memcached": (f"exec memcached -u root -t 1", ["--request", "memcached:"], memtier("memcache_text", 11211), True),
}


def by_netcliff(command, options):
    run = subprocess.run([NETCLIFF, "find", "--quick", "--service", command, *options, "--idle", "as-configured", "--json"], capture_output=True, text=True, check=False,
                         preexec_fn=lambda: os.sched_setaffinity(0, {0, 1}))
    lines = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    return lines[-1] if lines and "cliff_rps" in lines[-1] else run.stderr.strip().splitlines()[-1]


def holds(generate, rate):
    verdicts = [generate(rate)]
    if generate not in LONG:
        verdicts.append(generate(rate))
    if verdicts[0] != verdicts[-1]:
        verdicts.append(generate(rate))
    return None if None in verdicts else sum(verdicts) * 2 > len(verdicts)


def by_other(command, generate, closed, cliff):
    """Returns the other generator's cliff (requests/s), or a sentence that says why there is none."""
    subprocess.run([PAIR, "up"], check=True)
    service = subprocess.Popen(["taskset", "-c", "1", "ip", "netns", "exec", "ncd-hut", "sh", "-c", command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(1.5)
        if closed:
            return generate(None) or "no figure"
        low, high = -1, len(LEVELS)
        while high - low > 1:
            level = (low + high) // 2
            kept = holds(generate, LEVELS[level] * cliff)
            if kept is None:
                return f"did not send {LEVELS[level] * cliff:.0f}/s"
            low, high = (level, high) if kept else (low, level)
        if low < 0 or high == len(LEVELS):
            return f"{'below' if low < 0 else 'above'} {LEVELS[max(low, 0)] * cliff:.0f}/s"
        return (LEVELS[low] + LEVELS[high]) / 2 * cliff
    finally:
        for pid in subprocess.run(["ip", "netns", "pids", "ncd-hut"], capture_output=True, text=True, check=True).stdout.split():
            os.kill(int(pid), 15)
        service.wait()
        time.sleep(0.3)
        subprocess.run([PAIR, "down"], check=True)


def main():
    unknown = [name for name in CHOSEN if name not in SERVICES]
    if unknown:
        sys.exit(f"cliffs.py: '{unknown[0]}' is no service; expected one of: {'; '.join(SERVICES)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    os.sched_setaffinity(0, {0})
    write_files()
    for name in CHOSEN or SERVICES:
        command, options, generate, closed = SERVICES[name]
        rows = []
        for turn in range(1, int(ROUNDS) + 1):
            ours = by_netcliff(command, options)
            if isinstance(ours, str):
                print(f"{name} {turn}: netcliff: {ours}", flush=True)
                continue
            # A figure without an interval is a plain number.
            figure = ours.get("cliff_with_pauses_rps", ours["cliff_rps"])
            cliff = figure["value"] if isinstance(figure, dict) else figure
            theirs = by_other(command, generate, closed, cliff)
            print(f"{name} {turn}: netcliff {figure}, other {theirs}", flush=True)
            rows.append((cliff, None if isinstance(theirs, str) else theirs))
        values = [value for value, _ in rows]
        if len(values) > 1:
            print(f"{name}: netcliff median {statistics.median(values):.0f}/s, coefficient of variation {100 * statistics.stdev(values) / statistics.mean(values):.1f} %")
        ratios = [ours / theirs for ours, theirs in rows if theirs]
        if ratios:
            print(f"{name}: netcliff over the other: {' '.join(f'{ratio:.3f}' for ratio in ratios)}, median {statistics.median(ratios):.3f}", flush=True)


main()
