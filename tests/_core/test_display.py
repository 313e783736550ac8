"""HTML representations in notebooks."""

import crowdwise as cw
from crowdwise.evaluate import summarise

MALICIOUS = "<script>alert(1)</script>"


def test_html_representations_escape_all_text(tmp_path):
    task, worker = [f"{MALICIOUS}{i % 40}" for i in range(120)], [f"{MALICIOUS}{i // 40}" for i in range(120)]
    answers = cw.Answers.from_arrays(task, worker, [MALICIOUS if i % 3 else "x" for i in range(120)])
    model = cw.DawidSkene().fit(answers)
    run = cw.run.run(answers, tmp_path / "run", method="one-coin", folds=2)
    scores = cw.evaluate.evaluate(model, model.codes_)
    proposal = cw.acquire.propose(model, 3, workers=["new"])
    choice = cw.choose.choose(answers, candidates=["one-coin"], folds=2)
    changes = cw.run.compare(run, run)
    objects = [answers, summarise(answers), scores, proposal, choice, run, changes, run.feedback(worker[0])]
    for value in objects:
        html = value._repr_html_()
        assert MALICIOUS not in html and "<script" not in html, type(value).__name__
        assert "<p>" in html or "<td>" in html
    assert answers._repr_html_().count("<tr>") == 7  # header, five answers, and an ellipsis
