"""A person's own pictures become one task, whatever form they come in."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from drawn import TREES, draw, make_pictures, small_model
from snv import UserError
from snv.model.pictures import as_task, evened, read_dataset, read_folder
from snv.seeding import generator
from taught import QUERIES, all_unchanged


def test_rare_classes_are_shown_as_often_as_frequent_ones_but_at_most_ten_times():
    labels = torch.tensor([0] * 30 + [1] * 7 + [2] * 2)
    rows = evened(labels, generator(0, "test"))
    assert torch.bincount(labels[rows]).tolist() == [30, 30, 20]
    assert set(rows.tolist()) == set(range(39))
    repeats = torch.bincount(rows)
    assert (int(repeats[30:37].min()), int(repeats[30:37].max())) == (4, 5)


def test_only_training_pictures_are_repeated(tmp_path):
    make_pictures(tmp_path / "a", ("crow",), 40)
    make_pictures(tmp_path / "a", ("robin",), 10)
    task = as_task(read_folder(tmp_path / "a", 16), 0, 5, 0)
    counts = [torch.bincount(split.labels - 5).tolist() for split in (task.train, task.val, task.test)]
    assert counts == [[32, 32], [4, 1], [4, 1]]
    assert small_model().learn(tmp_path / "a", epochs=1).task.pictures == 50


class Drawn(torch.utils.data.Dataset):
    """A dataset as PyTorch has them."""

    classes = ("robin", "crow")

    def __len__(self) -> int:
        return 24

    def __getitem__(self, i: int) -> tuple[object, int]:
        return draw(self.classes[i % 2], i), i % 2


def test_any_dataset_of_pairs_is_a_task_under_the_names_it_brings(tmp_path):
    model = small_model()
    model.learn(Drawn(), "birds", epochs=1)
    assert model.task("birds").classes == ("robin", "crow")
    pairs = [(draw(name, i), torch.tensor(name == "oak")) for name in TREES for i in range(8)]
    model.learn(iter(pairs), epochs=1)
    assert model.tasks[1].classes == ("False", "True")
    assert model.tasks[1].name == "task2"
    assert all_unchanged(model)


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (7, "got int"),
        ([1, 2], "Item 0 is not a pair"),
        (([QUERIES[0]], ["a", "b"]), "1 images but 2 labels"),
        ([], "no image to learn from"),
        ([(image, label) for image in QUERIES[:6] for label in (1, "1")], "same name"),
    ],
)
def test_data_that_are_no_dataset_are_refused(data, answer):
    with pytest.raises(UserError, match=answer):
        small_model().learn(data)


def test_classes_are_in_the_order_of_their_labels():
    labels = [10.0, 2.0, -1.5] * 5
    assert read_dataset((QUERIES[:15], labels), (3, 16, 16)).classes == ("-1.5", "2.0", "10.0")
    assert read_dataset((QUERIES[:15], np.array([10, 9, 1] * 5)), (3, 16, 16)).classes == ("1", "9", "10")
