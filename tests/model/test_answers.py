"""A picture is answered with calibrated probabilities, whatever form it comes in."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from drawn import BIRDS, FISH, draw, small_model
from snv import UserError
from taught import QUERIES, answers

ROOMS = ("learners", "training", "runs", "shapley", "valuation", "config", "report")

PACKAGES = ("sympy", "matplotlib", "pandas", "onnx", "torch.utils.flop_counter", "torch._dynamo")

NOT_TO_ANSWER = (*PACKAGES, *(f"snv.{room}" for room in ROOMS))
"""What takes its time to load, and has no part in an answer."""


def test_a_picture_is_answered_without_a_learner_a_training_loop_or_an_estimator(model, tmp_path):
    draw("crow", 1).save(tmp_path / "a.png")
    code = f"""
import sys, snv
print(snv.Model.open({str(model.path)!r}).predict([{str(tmp_path / "a.png")!r}])[0].label)
raise SystemExit([name for name in {NOT_TO_ANSWER} if name in sys.modules] or 0)
"""
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout.strip() in BIRDS + FISH


def test_probabilities_add_up_and_the_best_come_first(model):
    for task, names in ((None, BIRDS + FISH), ("fish", FISH)):
        for best in answers(model, task):
            assert {name for _, name, _ in best} == set(names)
            shares = [p for *_, p in best]
            assert sum(shares) == pytest.approx(1, abs=1e-5)
            assert shares == sorted(shares, reverse=True)
    assert len(model.predict(QUERIES[:1], top=2)[0].best) == 2
    for top in (0, -1):
        with pytest.raises(UserError, match="at least 1"):
            model.predict(QUERIES, top=top)


def test_files_folders_and_images_in_memory_get_the_same_answer(model, tmp_path):
    image = draw("crow", 77, (16, 16))
    image.save(tmp_path / "one.png")
    array = np.asarray(image)
    kinds = [
        [image],
        [array],
        [array.transpose(2, 0, 1)],
        [torch.from_numpy(array.copy()).permute(2, 0, 1)],
        [torch.from_numpy(array.copy()).permute(2, 0, 1).float() / 255],
        [array.astype(np.float64) / 255],
        array[None],
        image,
        array,
        array.transpose(2, 0, 1),
        tmp_path / "one.png",
        [str(tmp_path / "one.png")],
    ]
    told = [model.predict(kind) for kind in kinds]
    assert all(len(one) == 1 for one in told)
    assert len({one[0].best for one in told}) == 1


@pytest.mark.parametrize("shape", [(16, 16), (1, 1), (7, 40), (300, 200)])
@pytest.mark.parametrize("channels", [None, 1, 3])
def test_images_may_have_any_size(shape, channels, model):
    image = np.full(shape if channels is None else (*shape, channels), 200, np.uint8)
    assert model.predict([image])[0].label is not None


@pytest.mark.parametrize(
    ("image", "answer"),
    [
        (np.zeros((8, 8, 2), np.uint8), "2 channels"),
        (np.full((8, 8, 3), 200.0), r"from 0 to 200.*\[0, 1\]"),
        (np.full((8, 8, 3), np.nan), "not numbers"),
        (np.zeros((8, 8, 3), np.int64), "int64"),
        (np.zeros(8, np.uint8), r"shape \(8,\)"),
    ],
)
def test_what_is_no_image_is_refused_by_its_number(image, answer, model):
    with pytest.raises(UserError, match=f"Image 1 .*{answer}"):
        model.predict([QUERIES[0], image])


def test_a_broken_file_is_told_and_the_others_are_answered(model, pictures, tmp_path):
    root = shutil.copytree(pictures / "birds", tmp_path / "mixed")
    broken_file = root / "crow" / "3.png"
    broken_file.write_text("no picture")
    (root / "crow" / "._4.png").write_text("what some systems leave beside a picture")
    told = model.predict(root)
    assert len(told) == 16
    assert [Path(one.source) for one in told if one.error] == [broken_file]
    assert "cannot be read" in next(one.error for one in told if one.error)
    with pytest.raises(UserError, match="nowhere does not exist"):
        model.predict(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="no picture in"):
        model.predict(tmp_path / "empty")


def test_a_grey_model_learns_arrays_and_reads_files(tmp_path):
    images = np.stack([np.asarray(draw(name, i).convert("L")) for name in BIRDS for i in range(12)])
    model = small_model(channels=1)
    model.learn((images, [name for name in BIRDS for _ in range(12)]), epochs=1)
    draw("crow", 1).save(tmp_path / "a.png")
    file, image = model.predict([tmp_path / "a.png", draw("crow", 1)])
    assert file.best == image.best
    assert len(model.predict(images)) == 24
    with pytest.raises(UserError, match="1 channel, but pictures of a folder are in colour"):
        model.learn(tmp_path)


def test_where_memory_runs_out_fewer_pictures_are_answered_at_a_time(model, monkeypatch, caplog):
    import snv.model.answers as room

    pictures = [draw(name, i, (16, 16)) for name in BIRDS + FISH for i in range(4)]
    whole, probabilities = model.predict(pictures), room.probabilities

    def narrow(knowledge, pixels, t):
        if len(pixels) > 5:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return probabilities(knowledge, pixels, t)

    monkeypatch.setattr(room, "probabilities", narrow)
    for ours, theirs in zip(model.predict(pictures), whole, strict=True):
        assert ours.label == theirs.label
        assert ours.best[0][2] == pytest.approx(theirs.best[0][2], rel=1e-5)
    assert "Going on with half as much at once" in caplog.text
