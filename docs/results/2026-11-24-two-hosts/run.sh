# same machine: netns testbed, --from and --of between two namespaces, interleaved
N=/root/wt/ci/target/release/netcliff
mkdir -p /root/bars/two
ip netns exec tg env HOME=/tmp/homeg $N agent --listen 10.77.2.1:9940 --key /tmp/two.key --allow-find d0 >/tmp/agentg.log 2>&1 & g=$!
ip netns exec th env HOME=/tmp/homeh $N agent --listen 10.77.2.2:9940 --key /tmp/two.key --allow-find d1 >/tmp/agenth.log 2>&1 & h=$!
sleep 1
for s in 1 2; do
$N find --quick --no-store --seed $s --json > /root/bars/two/netns$s.json 2>/root/bars/two/netns$s.err
ip netns exec th $N find --quick --no-store --seed $s --json --if d1 --from 10.77.2.1 --key /tmp/two.key --sender-cpu 0 > /root/bars/two/from$s.json 2>/root/bars/two/from$s.err
ip netns exec tg $N find --quick --no-store --seed $s --json --if d0 --of 10.77.2.2 --key /tmp/two.key --sender-cpu 0 > /root/bars/two/of$s.json 2>/root/bars/two/of$s.err
done
kill $g $h
