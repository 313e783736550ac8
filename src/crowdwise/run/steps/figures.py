"""Step 5: every figure of the report, among them accuracy with fewer answers and the forecast for more."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from crowdwise.answers import Answers
from crowdwise.choose import Choice
from crowdwise.choose.candidates import POOL, VOTE
from crowdwise.run import messages, metrics
from crowdwise.run.confidence import anchor_pool, make_labelling
from crowdwise.run.forecast import accuracy_curve, accuracy_forecast, self_training_history
from crowdwise.run.selection import Selected, fit_model
from crowdwise.run.steps.context import RunContext
from crowdwise.run.steps.fit import Fits
from crowdwise.run.steps.tables import Results
from crowdwise.run.stored_files import METRICS, seal_metrics
from crowdwise.run.tables.labels import Labelling
from crowdwise.run.trust_figures import trust_metrics
from crowdwise.trust.calibrator import confidence_notes, fit_pools, label_confidence
from crowdwise.truth.base import TruthModel


def write_metrics(
    context: RunContext,
    summary: Mapping[str, Any],
    choice: Choice | None,
    selected: Selected,
    fits: Fits,
    results: Results,
) -> None:
    """Write metrics.json, which makes the run complete."""
    truth, best, labelling = context.data.truth, selected.method, selected.labelling
    labellings = {
        name: make_labelling(name, model, context.data.answers, choice, fits.evidence, context.data.gold)
        for name, model in fits.models.items()
    } | {best: labelling}
    curve_method, curve = _curve(context, choice, selected, fits)
    calibration = _calibration(context, choice, selected, fits, summary)
    why, beats_vote = messages.why_chosen(choice, selected, context.candidates.requested)
    spammers = sum(results.workers.column("spammer").to_pylist())
    figures = {
        "method": best, "notes": context.notes, "summary": summary,
        **metrics.label_metrics(results.labels, labellings, best, truth, context.options.accept),
        **metrics.choice_metrics(choice, fits.models, labellings, best, truth, calibration),
        "wrong": metrics.wrong_labels(
            results.labels, context.data.class_names, selected.predictions, context.data.gold
        ),
        "trust": trust_metrics(context.data, selected, fits.evidence, summary, checked=choice is not None),
        "spammers": spammers, "ambiguity": messages.ambiguity_words(results.ranking),
        "forecast": accuracy_forecast(results.proposal, labelling),
        "curve": curve, "curve_method": curve_method, **self_training_history(fits.models),
        "why": why, "beats_vote": beats_vote,
    }  # fmt: skip
    figures["words"] = messages.headline(figures, why, results.workers.to_pylist())
    context.progress.write_json(METRICS, seal_metrics(figures, context.folder))


def _calibration(
    context: RunContext, choice: Choice | None, selected: Selected, fits: Fits, summary: Mapping[str, Any]
) -> tuple[float | None, str]:
    """Return the temperature of the confidences, if they have one, and what they rest on in words."""
    evidence, gold = fits.evidence, context.data.gold
    if evidence.values is not None and (gold is not None or not selected.needs_features):
        _, distance = label_confidence(evidence.values)
        n_gold = 0 if gold is None else int((gold >= 0).sum())
        return None, " ".join(confidence_notes(context.data.answers, evidence.values, distance, n_gold))
    temperature = None if choice is None else choice.temperatures.get(selected.method)
    answer_weight = getattr(fits.models[selected.method], "answer_weight_", None)  # only JointEM estimates it
    return temperature, messages.calibration_words(summary, temperature, answer_weight)


def _curve(
    context: RunContext, choice: Choice | None, selected: Selected, fits: Fits
) -> tuple[str, list[dict[str, Any]]]:
    """Return accuracy with fewer answers and the method: the selected one, if it needs no features."""
    ranking = [selected.method, *([VOTE] if choice is None else choice.ranking_)]
    name = next((name for name in ranking if isinstance(fits.models.get(name), TruthModel)), VOTE)
    model = fits.models[name]

    def label(part: Answers) -> Labelling:
        gold, evidence, sample = context.data.gold, fits.evidence, context.data.sample
        named, seed = context.data.families is not None, context.options.seed
        if evidence.pool is not None and part is not context.data.answers:
            evidence = evidence.with_pool(*fit_pools(part, evidence.dependence, named=named, random_state=seed))
        if name != POOL or evidence.pool is None:
            whole = part is context.data.answers
            fitted = model if whole else fit_model(copy.deepcopy(model), None, part, gold)
        else:
            fitted = evidence.pool
            if gold is not None and sample is not None:
                return anchor_pool(fitted, part, evidence, gold, sample.weight, seed)[0]
        scaling = selected.scaling if name == selected.method else None
        return make_labelling(name, fitted, part, choice, evidence, gold, scaling)

    return name, accuracy_curve(context.data.answers, context.data.truth, label, context.options.seed)
