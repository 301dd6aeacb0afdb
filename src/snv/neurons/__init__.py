"""Which filters and units a network has, what belongs to each, and how to close and open them."""

from __future__ import annotations

from snv.neurons.activity import activity
from snv.neurons.find import Neurons, Owned, evaluating, find_neurons
from snv.neurons.gates import Means, ablated, gate_output, gated, mean_of_responses, mean_responses_to
from snv.neurons.graph import call_settings, graph_of, operation_name, over_positions, told_to_train
from snv.neurons.silence import silent_responses
from snv.neurons.sources import as_module, sources_let_go
from snv.neurons.table import NeuronTable
from snv.neurons.trace import Forward
from snv.neurons.wiring import Connections, Units, n_weights_outside, no_entries, own_weights, units_of

__all__ = [
    "Connections",
    "Forward",
    "Means",
    "NeuronTable",
    "Neurons",
    "Owned",
    "Units",
    "ablated",
    "activity",
    "as_module",
    "call_settings",
    "evaluating",
    "find_neurons",
    "gate_output",
    "gated",
    "graph_of",
    "mean_of_responses",
    "mean_responses_to",
    "n_weights_outside",
    "no_entries",
    "operation_name",
    "over_positions",
    "own_weights",
    "silent_responses",
    "sources_let_go",
    "told_to_train",
    "units_of",
]
