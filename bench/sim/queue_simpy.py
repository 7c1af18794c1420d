"""M/M/1/B and M/D/1/B in SimPy. `queue_simpy.py PACKETS` measures rho = 0.8, B = 1024; referee.py imports `run`."""
import json
import random
import sys
import time

import simpy


def run(rho, ring, deterministic, packets, seed, warm_up=0):
    """Offered packets after the warm-up: (share delivered, mean latency in service times)."""
    draws = random.Random(seed)
    env = simpy.Environment()
    cpu = simpy.Resource(env)
    state = {"inside": 0, "lost": 0, "latency": 0.0, "delivered": 0}

    def packet(counts):
        arrived = env.now
        with cpu.request() as request:
            yield request
            yield env.timeout(1.0 if deterministic else draws.expovariate(1.0))
        state["inside"] -= 1
        if counts:
            state["latency"] += env.now - arrived
            state["delivered"] += 1

    def source():
        for number in range(packets + warm_up):
            yield env.timeout(draws.expovariate(rho))
            if state["inside"] == ring:
                state["lost"] += number >= warm_up
                continue
            state["inside"] += 1
            env.process(packet(number >= warm_up))

    env.process(source())
    env.run()
    return 1 - state["lost"] / packets, state["latency"] / state["delivered"]


if __name__ == "__main__":
    count = int(sys.argv[1])
    start = time.process_time()
    share, latency = run(0.8, 1024, False, count, 1)
    seconds = time.process_time() - start
    print(json.dumps({"packets": count, "cpu_seconds": seconds, "delivered": share, "mean_latency": latency}))
