"""From a matrix to a mapping and its worth, step by step: eight tasks that talk in pairs, in an order that hides it."""

import numpy as np

import cohabit

# Task i and task i + 4 exchange 1000 messages, all others ten.
messages = np.full((8, 8), 10)
np.fill_diagonal(messages, 0)
for task in range(4):
    messages[task, task + 4] = messages[task + 4, task] = 1000
profile = cohabit.Profile.from_matrix(messages)
print(profile)

# Two packages of four cores.
topology = cohabit.Topology("pack:2 core:4 pu:1")
mapping = cohabit.map(profile, topology)
print(mapping)
print(mapping.tasks[["pu"]].T.to_string())

# What it saves, beside others.
table = cohabit.evaluate(profile, {"best": mapping, "scatter": cohabit.map(profile, topology, "scatter")}, topology)
print(table[["cost", "gain"]].round(2).to_string())
