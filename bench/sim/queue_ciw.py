"""M/M/1/B and M/D/1/B in Ciw. `queue_ciw.py PACKETS` measures rho = 0.8, B = 1024; referee.py imports `run`."""
import json
import sys
import time

import ciw


def run(rho, ring, deterministic, packets, seed, warm_up=0):
    """Offered packets after the warm-up: (share delivered, mean latency in service times)."""
    ciw.seed(seed)
    service = ciw.dists.Deterministic(1.0) if deterministic else ciw.dists.Exponential(rate=1.0)
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(rate=rho)],
        service_distributions=[service],
        number_of_servers=[1],
        queue_capacities=[ring - 1],
    )
    simulation = ciw.Simulation(network)
    # Counted by arrivals, lost ones included; "Finish" would leave out those inside.
    simulation.simulate_until_max_customers(packets + warm_up, method="Arrive")
    records = [r for r in simulation.get_all_records() if r.id_number > warm_up]
    lost = sum(1 for r in records if r.record_type == "rejection")
    latencies = [r.exit_date - r.arrival_date for r in records if r.record_type == "service"]
    return 1 - lost / (lost + len(latencies)), sum(latencies) / len(latencies)


if __name__ == "__main__":
    count = int(sys.argv[1])
    start = time.process_time()
    share, latency = run(0.8, 1024, False, count, 1)
    seconds = time.process_time() - start
    print(json.dumps({"packets": count, "cpu_seconds": seconds, "delivered": share, "mean_latency": latency}))
