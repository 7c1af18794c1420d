"""Compares MLRsearch decisions with those of the PyPI package MLRsearch 1.2.1 on the same recorded trials.

    cargo run -p netcliff-mlrsearch --example searches trials > trials.jsonl
    python3 -m venv venv && venv/bin/pip install MLRsearch==1.2.1
    venv/bin/python decisions.py trials.jsonl

After every trial, it compares the classification of the trial's load, both relevant bounds, and the conditional
throughput at the lower bound. At the end, the package's own search runs on the sharp device (a simulated device without
noise, so that both programs need no common random numbers). Its bounds and its trial time are printed next to those of
netcliff.
"""

import json
import sys
from itertools import groupby

from MLRsearch import AbstractMeasurer, Config, MeasurementResult, MultipleLossRatioSearch, SearchGoal
from MLRsearch.target_spec import TargetSpec
from MLRsearch.target_stat import TargetStat


def target(goal):
    return TargetSpec(
        loss_ratio=goal["loss_ratio"],
        exceed_ratio=goal["exceed_ratio"],
        discrete_width=None,
        trial_duration=goal["final_trial_s"],
        duration_sum=goal["duration_sum_s"],
        expansion_coefficient=2,
        fail_fast=False,
        preceding=None,
    )


def class_of(stat):
    optimistic, pessimistic = stat.estimates()
    if optimistic != pessimistic:
        return "undecided"
    return "lower" if optimistic else "upper"


def bounds(stats):
    """The relevant bounds by the package's rule (MeasurementDatabase.get_relevant_bounds), from the package's own
    classifications."""
    lower = None
    for load in sorted(stats):
        kind = class_of(stats[load])
        if kind == "upper":
            return lower, load
        if kind == "lower":
            lower = load
    return lower, None


def replay(lines):
    """Replays one recorded search. Returns the number of trials and the decisions that differ."""
    stats, wrong = {}, []
    for line in lines:
        trial = line["trial"]
        load = trial["load_pps"]
        stat = stats.setdefault(load, TargetStat(target(line["goal"])))
        stat.add(
            MeasurementResult(
                intended_duration=trial["duration_s"],
                intended_load=load,
                offered_count=trial["sent"],
                loss_count=trial["lost"],
            )
        )
        lower, upper = bounds(stats)
        conditional = lower and lower * (1.0 - stats[lower].pessimistic_loss_ratio)
        theirs = (class_of(stat), lower, upper, conditional)
        ours = (line["class"], line["lower_pps"], line["upper_pps"], line["conditional_pps"])
        close = conditional == ours[3] or (conditional and ours[3] and abs(conditional / ours[3] - 1) < 1e-12)
        if theirs[:3] != ours[:3] or not close:
            wrong.append((line["device"], line["way"], line["seed"], ours, theirs))
    return len(lines), wrong


class Sharp(AbstractMeasurer):
    def __init__(self, capacity):
        self.capacity, self.spent, self.trials = capacity, 0.0, 0

    def measure(self, intended_duration, intended_load):
        self.spent += intended_duration
        self.trials += 1
        sent = round(intended_duration * intended_load)
        lost = round(max(0.0, intended_load - self.capacity) * intended_duration)
        return MeasurementResult(intended_duration, intended_load, offered_count=sent, loss_count=lost)


def own_search(goal, capacity):
    measurer = Sharp(capacity)
    config = Config(
        goals=[
            SearchGoal(
                loss_ratio=goal["loss_ratio"],
                exceed_ratio=goal["exceed_ratio"],
                relative_width=goal["width"],
                initial_trial_duration=goal["initial_trial_s"],
                final_trial_duration=goal["final_trial_s"],
                duration_sum=goal["duration_sum_s"],
            )
        ],
        min_load=14_881.0,
        max_load=1_488_095.0,
        warmup_duration=None,
    )
    result = next(iter(MultipleLossRatioSearch(config=config).search(measurer, debug=lambda _: None).values()))
    lower, upper = float(result.relevant_lower_bound), float(result.relevant_upper_bound)
    return lower, upper, measurer.spent, measurer.trials


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    trials, searches, wrong, sharp = 0, 0, [], {}
    for key, group in groupby(lines, key=lambda line: (line["device"], line["way"], line["seed"])):
        group = list(group)
        seen, differing = replay(group)
        trials, searches, wrong = trials + seen, searches + 1, wrong + differing
        if key[0] == "sharp" and key[2] == 0:
            sharp[key[1]] = group
    print(f"{searches} searches, {trials} trials: {len(wrong)} decisions differ")
    for one in wrong[:10]:
        print("differs:", *one)
    print("sharp device of 623 kpps: lower pps, upper pps, trial time s, trials")
    for way, group in sharp.items():
        ours = (group[-1]["lower_pps"], group[-1]["upper_pps"], sum(g["trial"]["duration_s"] for g in group), len(group))
        print(f"  {way}: netcliff", *(f"{value:.0f}" for value in ours))
        print(f"  {way}: package ", *(f"{value:.0f}" for value in own_search(group[0]["goal"], 623e3)))
    sys.exit(bool(wrong))


main()
