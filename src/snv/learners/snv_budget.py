"""What a task of SNV finds of the network when it begins, and which neurons it takes once they are valued."""

from __future__ import annotations

import logging

from snv.learners.snv_config import SNVConfig
from snv.neurons import n_weights_outside
from snv.shapes import Mask, Values
from snv.subnetworks import Specialists, check_parts, outside_part, select

log = logging.getLogger(__name__)


def announce(specialists: Specialists, config: SNVConfig, number: int, n_tasks: int) -> None:
    """Say what task ``number`` (from 1) will get; without reuse, refuse it if a layer has too little left."""
    neurons, frozen, budget = specialists.neurons, specialists.frozen, config.budget(specialists.neurons)
    if config.reuse == "none":
        check_parts(neurons, frozen, number, n_tasks)
    if config.reuse == "free" and number == 1:
        log.info("%s", budget.plan(n_tasks))
    free_weights = n_weights_outside(neurons, specialists.read_by())
    if shortage := budget.shortage(number, int(frozen.sum()), free_weights):
        log.warning("%s", shortage)


def selected(values: Values, specialists: Specialists, config: SNVConfig, number: int, n_tasks: int) -> Mask:
    """S_t (Eq. 1): the best neurons within the budget; what is frozen comes along, counts, or stays out."""
    neurons, frozen, budget = specialists.neurons, specialists.frozen, config.budget(specialists.neurons)
    return select(
        values,
        neurons.layer_index,
        budget.asked(int(frozen.sum())),
        config.layer_share,
        free=frozen if config.reuse == "free" else None,
        barred=outside_part(values, neurons, frozen, number, n_tasks) if config.reuse == "none" else None,
        largest=budget.largest,
    )
