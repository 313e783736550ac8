"""Write the results of cleanlab 2.9.0 on two small crowds for test_crowdlab.py. Run with cleanlab installed:

python tests/learn/generate_cleanlab.py

The first crowd has a good classifier, the second a poor one and a task answered by one worker alone.
"""

import json
from pathlib import Path

import numpy as np


def main():
    crowds = [crowd(seed=0, n_classes=3, sharpness=2.5, least=2), crowd(seed=1, n_classes=4, sharpness=0.8, least=1)]
    Path(__file__).with_name("cleanlab.json").write_text(json.dumps(crowds), encoding="utf-8")


def crowd(seed, n_classes, sharpness, least):
    from cleanlab.multiannotator import get_label_quality_multiannotator

    rng = np.random.default_rng(seed)
    truth = rng.integers(0, n_classes, 60)
    skill = rng.uniform(0.4, 0.95, 8)
    labels = np.full((60, 8), np.nan)
    for task in range(60):
        for worker in rng.permutation(8)[: rng.integers(least, 6)]:
            right = rng.random() < skill[worker]
            labels[task, worker] = truth[task] if right else rng.integers(0, n_classes)
    logits = rng.normal(size=(60, n_classes)) + sharpness * np.eye(n_classes)[truth]
    proba = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    result = get_label_quality_multiannotator(labels, proba, return_weights=True, verbose=False)
    stats = result["annotator_stats"].sort_index()
    return {
        "labels": [[None if np.isnan(label) else int(label) for label in row] for row in labels],
        "proba": proba.tolist(),
        "consensus": result["label_quality"]["consensus_label"].tolist(),
        "quality": result["label_quality"]["consensus_quality_score"].tolist(),
        "answer_quality": result["detailed_label_quality"].stack().tolist(),
        "worker_quality": stats["annotator_quality"].tolist(),
        "worker_weight": result["annotator_weight"].tolist(),
        "model_weight": float(result["model_weight"]),
    }


if __name__ == "__main__":
    main()
