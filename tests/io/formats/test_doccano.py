from __future__ import annotations

import io
import json
import zipfile

import pytest

from crowdwise import errors
from crowdwise.io import read
from crowdwise.io.formats import doccano


def archive(**members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, records in members.items():
            text = records if isinstance(records, str) else "\n".join(json.dumps(record) for record in records)
            packed.writestr(name.replace("__", "."), text)
    return out.getvalue()


ANN = [{"id": 1, "text": "Terrible service.", "label": ["negative"]}, {"id": 2, "text": "Fine.", "label": ["positive"]}]
BOB = [
    {"id": 1, "text": "Terrible service.", "label": []},
    {"id": 2, "text": "Fine.", "label": ["positive", "negative"]},
]


def test_one_file_per_worker(put, rows):
    file = put("export.zip", archive(ann__jsonl=ANN, bob__jsonl=[*BOB, {"id": 3, "text": "", "label": ["negative"]}]))
    with pytest.raises(errors.AnswerKindError, match="1 of 5 answers have several labels at once"):
        read(file)
    answers = read(file, as_classes=True)
    assert rows(answers) == [
        (1, "ann", "negative"), (1, "bob", "(none)"), (2, "ann", "positive"), (2, "bob", "negative + positive"),
        (3, "bob", "negative"),
    ]  # fmt: skip
    assert not answers.removed


def test_without_ids_the_text_is_the_task(put, rows):
    records = [{"text": "Fine.", "label": ["positive"]}]
    assert rows(read(put("export.zip", archive(ann__jsonl=records)))) == [("Fine.", "ann", "positive")]
    assert rows(read(put("b.zip", archive(ann__jsonl=ANN)), task="text"))[0] == ("Fine.", "ann", "positive")


def test_collaborative_projects_are_rejected(put):
    with pytest.raises(errors.FormatError, match="collaborative"):
        read(put("export.zip", archive(all__jsonl=ANN)))


@pytest.mark.parametrize("members", [{}, {"notes__txt": "hello"}, {"xl/workbook__xml": "<x/>", "ann__jsonl": ANN}])
def test_other_zips_are_rejected(put, members):
    with pytest.raises(errors.FormatError, match=r"expected a zip of <username>\.jsonl"):
        read(put("export.zip", archive(**members)))


def test_an_oversized_zip_is_not_unpacked(put, monkeypatch):
    monkeypatch.setattr(doccano, "MAX_BYTES", 1000)
    with pytest.raises(errors.TooLargeError, match=r"more than the .*1,000"):
        read(put("export.zip", archive(ann__jsonl=" " * 1001)))


def test_damaged_members_are_rejected(put):
    intact = archive(ann__jsonl=ANN * 50)
    broken = bytearray(intact)
    broken[60] ^= 0xFF
    with pytest.raises(errors.FormatError):
        read(put("a.zip", bytes(broken)))
    with pytest.raises(errors.FormatError, match="truncated"):
        read(put("b.zip", intact[:-30]))
    with pytest.raises(errors.FormatError, match="line 1 is not JSON"):
        read(put("c.zip", archive(ann__jsonl="{")))
    with pytest.raises(errors.FormatError, match="no field 'id' or 'text'"):
        read(put("d.zip", archive(ann__jsonl=[{"label": ["x"]}])))
