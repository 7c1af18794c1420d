#!/usr/bin/env bash
# run.sh NETCLIFF DATA: prints the CPU share that `netcliff headroom` shows at the measured maximum of dnsmasq (by
# dnsperf, then by an open loop that overloads it), nginx (by wrk) and memcached. The server is on CPU 1, the client on
# CPU 0, in two namespaces. DATA is an XDG_DATA_HOME whose store contains a `find --quick` of this host. Needs root and
# Debian's dnsmasq, dnsperf, nginx, wrk and memcached. Results of one run on 28 November 2026: 100, 132 (overloaded),
# 99.5 and 99 %.
set -u
NC="$(realpath "$1")"; S="$(mktemp -d)"; export XDG_DATA_HOME="${2:-$S}" NETCLIFF_STATE_DIR="$S/state"; mkdir -m 700 "$S/state"
pids=()
cleanup() { for p in "${pids[@]}"; do kill "$p" 2>/dev/null; done; ip netns del nhs 2>/dev/null; ip netns del nhc 2>/dev/null; rm -rf "$S"; }
trap cleanup EXIT
ip netns add nhs; ip netns add nhc
ip link add vs netns nhs type veth peer name vc netns nhc
ip -n nhs addr add 10.98.1.1/24 dev vs; ip -n nhc addr add 10.98.1.2/24 dev vc
for n in "nhs vs" "nhc vc"; do set -- $n; ip -n $1 link set $2 up; ip -n $1 link set lo up; done
ip netns exec nhs sh -c 'echo 2 > /sys/class/net/vs/queues/rx-0/rps_cpus'
ip netns exec nhc sh -c 'echo 1 > /sys/class/net/vc/queues/rx-0/rps_cpus'
srv() { ip netns exec nhs taskset -c 1 "$@" >"$S/srv.log" 2>&1 & pids+=($!); sleep 1; }
show() { ip netns exec nhs "$NC" headroom --fail-above 80% --interval 2s 2>&1; echo "rc=$?"; }
echo "== dnsmasq"
srv dnsmasq -k -C /dev/null -u root --no-resolv --no-hosts --address=/example.org/192.0.2.1 --cache-size=1000 -p 53 --listen-address=10.98.1.1 --bind-interfaces --pid-file="$S/dm.pid"
echo "www.example.org A" > "$S/q"
ip netns exec nhc taskset -c 0 dnsperf -s 10.98.1.1 -d "$S/q" -l 6 -q 200 -c 4 > "$S/dp" 2>&1 & D=$!
sleep 2; show; wait $D; grep -E "per second|lost" "$S/dp"
echo "== dnsmasq, overloaded (open loop)"
cat > "$S/blast.py" <<'P'
import socket,time
q=b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03www\x07example\x03org\x00\x00\x01\x00\x01"
s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); s.connect(("10.98.1.1",53)); s.setblocking(False)
e=time.time()+6; n=0
while time.time()<e:
    for _ in range(200):
        try: s.send(q); n+=1
        except OSError: pass
print(n)
P
ip netns exec nhc taskset -c 0 python3 "$S/blast.py" > "$S/bl" & D=$!
sleep 2; show; wait $D; cat "$S/bl"; ip netns exec nhs nstat -az UdpInDatagrams UdpRcvbufErrors 2>/dev/null | tail -2
kill "${pids[-1]}"
echo "== nginx"
mkdir -p "$S/www"; echo hi > "$S/www/index.html"
cat > "$S/n.conf" <<N
worker_processes 1; daemon off; pid $S/n.pid; error_log $S/n.err; events { worker_connections 1024; }
http { access_log off; keepalive_requests 1000000; server { listen 10.98.1.1:80; root $S/www; } }
N
chmod 755 "$S"; srv nginx -c "$S/n.conf"
ip netns exec nhc taskset -c 0 wrk -t1 -c50 -d6s http://10.98.1.1/ > "$S/wrk" 2>&1 & D=$!
sleep 2; show; wait $D; grep -E "Requests/sec" "$S/wrk"
echo "== memcached"
srv memcached -u root -l 10.98.1.1 -t 1 -U 0
cat > "$S/mc.py" <<'P'
import socket,time,select
cs=[]
for _ in range(20):
    s=socket.create_connection(("10.98.1.1",11211)); s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY,1); cs.append(s)
cs[0].sendall(b"set k 0 0 2\r\nhi\r\n"); cs[0].recv(100)
req=b"get k\r\n"*20; n=0
for s in cs: s.sendall(req)
e=time.time()+6; p=select.epoll(); f={s.fileno():s for s in cs}
for s in cs: p.register(s.fileno(), select.EPOLLIN)
got={k:0 for k in f}
while time.time()<e:
    for fd,_ in p.poll(1):
        d=f[fd].recv(65536); got[fd]+=d.count(b"END\r\n")
        while got[fd]>=20: got[fd]-=20; n+=20; f[fd].sendall(req)
print(n/6,"gets/s")
P
ip netns exec nhc taskset -c 0 python3 "$S/mc.py" > "$S/mc" & D=$!
sleep 2; show; wait $D; cat "$S/mc"
