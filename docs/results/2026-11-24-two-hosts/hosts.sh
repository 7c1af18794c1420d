# two namespaces: g (generator) and h (host under test); data link d0-d1, control link c0-c1
set -e
case $1 in
up)
ip netns add tg; ip netns add th
ip -n tg link add d0 type veth peer name d1 netns th
ip -n tg link add c0 type veth peer name c1 netns th
ip -n tg addr add 10.77.1.1/24 dev d0; ip -n th addr add 10.77.1.2/24 dev d1
ip -n tg addr add 10.77.2.1/24 dev c0; ip -n th addr add 10.77.2.2/24 dev c1
for i in d0 c0 lo; do ip -n tg link set $i up; done; for i in d1 c1 lo; do ip -n th link set $i up; done
ip -n tg link set d0 mtu 9000; ip -n th link set d1 mtu 9000
ip netns exec th sh -c 'echo 2 > /sys/class/net/d1/queues/rx-0/rps_cpus'
;;
down) ip netns del tg; ip netns del th;;
esac
