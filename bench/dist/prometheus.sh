#!/bin/bash
# prometheus.sh BINARY DIR CONTRIB (absolute paths): Debian's Prometheus scrapes `watch` and an agent every 5 s for a
# minute. Output files are written to DIR. CONTRIB contains the alert rules (prometheus/alerts.yml).
cd "$2"; rm -rf data; N=$1; contrib=$3
cat > prom.yml <<X
global: {scrape_interval: 5s}
rule_files: [$contrib/prometheus/alerts.yml]
scrape_configs:
  - job_name: watch
    static_configs: [{targets: ["127.0.0.1:19942"]}]
  - job_name: agent
    static_configs: [{targets: ["127.0.0.1:19943"]}]
X
promtool check config prom.yml
$N watch --metrics 19942 > watch.log 2>&1 & W=$!
rm -f key; $N agent --make-key key
$N agent --key key --listen 127.0.0.1:19944 --metrics 19943 > agent.log 2>&1 & A=$!
prometheus --config.file=prom.yml --storage.tsdb.path=data --web.listen-address=127.0.0.1:19090 > prometheus.log 2>&1 & P=$!
sleep 10
$N stream --to 127.0.0.1:19944 --key key --time 5s --json > stream.json 2>stream.err
$N rr --to 127.0.0.1:19944 --key key --time 5s --json > rr.json 2>rr.err
sleep 45
curl -s http://127.0.0.1:19942/metrics > watch.om0; curl -s -H 'Accept: application/openmetrics-text' http://127.0.0.1:19942/metrics > watch.om; curl -s http://127.0.0.1:19943/metrics > agent.prom
for f in watch.om0 agent.prom; do echo "promtool check metrics $f"; promtool check metrics < $f; echo rc $?; done
tail -n 1 watch.om
q() { curl -s "http://127.0.0.1:19090/api/v1/query" --data-urlencode "query=$1" | python3 -c 'import json,sys
for r in json.load(sys.stdin)["data"]["result"]: print({k:v for k,v in r["metric"].items()}, r["value"][1])'; }
for x in 'up' 'count_over_time(up[1m])' 'count by (job) ({job!=""})' 'scrape_samples_scraped' 'max_over_time(scrape_duration_seconds[1m])' 'netcliff_agent_tests_total' 'netcliff_host_cliff_ratio' 'sum(rate(netcliff_cpu_packets_total{job="watch"}[1m]))'; do echo "== $x"; q "$x"; done
echo == targets; curl -s http://127.0.0.1:19090/api/v1/targets | python3 -c 'import json,sys
for t in json.load(sys.stdin)["data"]["activeTargets"]: print(t["labels"]["job"], t["health"], repr(t["lastError"]))'
echo == rules; curl -s http://127.0.0.1:19090/api/v1/rules | python3 -c 'import json,sys
for g in json.load(sys.stdin)["data"]["groups"]:
  for r in g["rules"]: print(r["name"], r["health"], r["state"])'
echo == prometheus log; grep -E "level=(warn|error)" prometheus.log
kill $W $A $P; wait
