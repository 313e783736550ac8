"""What objects show of themselves in a notebook."""

import crowdwise as cw
from crowdwise.evaluate import summarise

NASTY = "<script>alert(1)</script>"


def test_everything_a_user_looks_at_shows_itself_and_escapes(tmp_path):
    task, worker = [f"{NASTY}{i % 40}" for i in range(120)], [f"{NASTY}{i // 40}" for i in range(120)]
    answers = cw.Answers.from_arrays(task, worker, [NASTY if i % 3 else "x" for i in range(120)])
    model = cw.DawidSkene().fit(answers)
    run = cw.run.run(answers, tmp_path / "run", method="one-coin", folds=2)
    scores = cw.evaluate.evaluate(model, model.codes_)
    proposal = cw.acquire.propose(model, 3, workers=["new"])
    choice = cw.choose.choose(answers, candidates=["one-coin"], folds=2)
    changes = cw.run.compare(run, run)
    shown = [answers, summarise(answers), scores, proposal, choice, run, changes, run.feedback(worker[0])]
    for each in shown:
        html = each._repr_html_()
        assert NASTY not in html and "<script" not in html, type(each).__name__
        assert "<p>" in html or "<td>" in html
    assert answers._repr_html_().count("<tr>") == 7  # a head, five answers, and that there are more
