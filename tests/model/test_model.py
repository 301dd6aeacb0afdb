"""A person's model: it learns folder after folder, old answers stay bit-identical, and no failure leaves a trace."""

from __future__ import annotations

import dataclasses
import random
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from drawn import BIRDS, FISH, TREES, contents, draw, make_pictures, small_model, taught_model, three_folders
from snv import Model, SNVClassifier, UserError
from snv.files import cloned
from snv.model.learning import learner_around
from snv.model.pictures import as_task, evened, read_dataset, read_folder
from snv.model.store import Store
from snv.seeding import generator
from snv.subnetworks.budget import Budget

NAMES = {"birds": BIRDS, "fish": FISH, "trees": TREES}
QUERIES = [draw(name, 100 + i) for i in range(3) for names in NAMES.values() for name in names]
QUICK = 2  # epochs


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> Path:
    return three_folders(tmp_path_factory.mktemp("pictures"))


@pytest.fixture(scope="module")
def taught(pictures, tmp_path_factory) -> Path:
    return taught_model(tmp_path_factory.mktemp("taught") / "pets.snv", pictures)


@pytest.fixture
def model(taught, tmp_path) -> Model:
    return Model.open(shutil.copytree(taught, tmp_path / "pets.snv"))


def answers(model: Model, task: str | None) -> list[tuple[tuple[str, str, float], ...]]:
    return [prediction.best for prediction in model.predict(QUERIES, task, top=9)]


def all_unchanged(model: Model) -> bool:
    return all(verdict.unchanged and "bit-identical" in verdict.told for verdict in model.verify())


def everything(model: Model) -> object:
    """All that a failure must not touch, in memory."""
    knowledge = model.knowledge
    parts = model.specialists.state(), knowledge.values, knowledge.probes, knowledge.tasks, knowledge.next_uid
    return cloned(parts)


def same(a: object, b: object) -> bool:
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return a == b


# ---- learning


@pytest.mark.parametrize("network", ["convnet", "resnet18"])
def test_old_answers_are_bit_identical_after_every_later_task(network, pictures, tmp_path):
    model = small_model(tmp_path / "pets.snv", network=network)
    names = tuple(NAMES)[: 3 if network == "convnet" else 2]
    first: dict[str, object] = {}
    for t, name in enumerate(names):
        learned = model.learn(pictures / name, epochs=2)
        assert learned.verified == names[:t]
        assert learned.task.classes == NAMES[name]
        first[name] = answers(model, name)
    assert all_unchanged(model)
    assert learned.used == int(model.specialists.frozen.sum()) > learned.new_neurons > 0
    assert all(answers(model, name) == first[name] for name in names)


def test_it_learns(tmp_path):
    model = small_model(width=16)
    learned = model.learn(make_pictures(tmp_path / "birds", BIRDS, 60), epochs=14)
    told = model.predict([draw(name, i) for name in BIRDS for i in range(100, 110)])
    assert [prediction.label for prediction in told] == ["crow"] * 10 + ["robin"] * 10
    assert learned.task.accuracy == 100
    assert 0 <= learned.task.calibration_error <= 1


def test_a_model_that_was_saved_opens_to_the_same_bits(model, tmp_path):
    again = Model.open(model.path)
    assert same(again.knowledge.states(), model.knowledge.states())
    for task in (None, "birds", "fish"):
        assert answers(again, task) == answers(model, task)
    assert all_unchanged(again)
    model.save(tmp_path / "copy.snv")
    assert contents(tmp_path / "copy.snv") == contents(again.path)


def test_learning_on_after_opening_is_learning_on(model, pictures, taught, tmp_path):
    other = Model.open(shutil.copytree(taught, tmp_path / "other.snv"))
    for one in (model, other):
        one.learn(pictures / "trees", epochs=QUICK)
    assert same(model.knowledge.states(), other.knowledge.states())


def test_a_model_without_a_directory_lives_in_memory_until_it_is_given_one(pictures, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = small_model()
    model.learn(pictures / "birds", epochs=1)
    assert not list(tmp_path.iterdir())
    with pytest.raises(UserError, match="no directory yet"):
        model.save()
    model.save(tmp_path / "pets.snv")
    assert answers(Model.open(tmp_path / "pets.snv"), None) == answers(model, None)


def test_a_full_network_still_learns_and_keeps_its_promise(pictures, monkeypatch):
    monkeypatch.setattr("snv.model.learning.LARGEST", 1.0)
    model = small_model(capacity=1.0)
    model.learn(pictures / "birds", epochs=2)
    before = answers(model, "birds")
    learned = model.learn(pictures / "fish", epochs=2)
    assert learned.new_neurons == 0
    assert answers(model, "birds") == before
    assert all_unchanged(model)


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


# ---- mistakes change nothing


def too_few(root: Path) -> None:
    shutil.rmtree(root / "elm")
    make_pictures(root, ("elm",), 4)


def no_classes(root: Path) -> None:
    shutil.rmtree(root)
    root.mkdir()


def one_class(root: Path) -> None:
    shutil.rmtree(root / "elm")


def broken(root: Path) -> None:
    (root / "oak" / "7.png").write_bytes((root / "oak" / "7.png").read_bytes()[:90])


def empty_class(root: Path) -> None:
    (root / "yew").mkdir()


def known_class(root: Path) -> None:
    make_pictures(root, ("pike",))


MISTAKES = {
    "too few pictures": (too_few, r"class 'elm' has 4 pictures; at least 5"),
    "an empty folder": (no_classes, r"trees has 0 class folders"),
    "one class": (one_class, r"trees has 1 class folder;"),
    "a class without pictures": (empty_class, r"yew has no images"),
    "a broken picture": (broken, r"oak/7\.png cannot be read"),
    "a class of another task": (known_class, r"'pike' is known from the task 'fish'.*--repeat-classes"),
}


@pytest.mark.parametrize(("spoil", "answer"), MISTAKES.values(), ids=MISTAKES)
@pytest.mark.parametrize("replace", [False, True], ids=["new task", "replacing"])
def test_a_mistake_is_named_and_changes_nothing(spoil, answer, replace, model, pictures, tmp_path):
    root = shutil.copytree(pictures / "trees", tmp_path / "trees")
    spoil(root)
    memory, disk = everything(model), contents(model.path)
    with pytest.raises(UserError, match=answer):
        model.learn(root, "birds" if replace else None, replace=replace, epochs=1)
    assert same(everything(model), memory)
    assert contents(model.path) == disk
    assert all_unchanged(model)


@pytest.mark.parametrize("replace", [False, True], ids=["new task", "replacing"])
@pytest.mark.parametrize("moment", ["reading pictures", "consolidating"])
def test_an_exception_in_the_middle_of_learning_leaves_memory_and_disk_as_before(moment, replace, model, pictures):
    def stop(what: str, done: float, total: float) -> None:
        if what == moment and done >= total / 2:
            raise KeyboardInterrupt

    memory, disk, before = everything(model), contents(model.path), answers(model, None)
    with pytest.raises(KeyboardInterrupt):
        model.learn(pictures / "trees", "birds" if replace else None, replace=replace, epochs=4, progress=stop)
    assert same(everything(model), memory)
    assert contents(model.path) == disk
    assert answers(model, None) == before


def test_what_is_learned_after_a_failure_is_what_would_have_been_learned_without_it(model, pictures, taught, tmp_path):
    def stop(what: str, *_: float) -> None:
        if what == "consolidating":
            raise RuntimeError

    with pytest.raises(RuntimeError):
        model.learn(pictures / "trees", epochs=QUICK, progress=stop)
    other = Model.open(shutil.copytree(taught, tmp_path / "other.snv"))
    for one in (model, other):
        one.learn(pictures / "trees", epochs=QUICK)
    assert same(model.knowledge.states(), other.knowledge.states())


def test_a_name_that_is_taken_is_refused_with_both_ways_out(model, pictures):
    disk = contents(model.path)
    with pytest.raises(UserError, match=r"task 'birds' already, with the classes crow, robin.*--task.*--replace"):
        model.learn(pictures / "trees", "birds")
    assert contents(model.path) == disk


@pytest.mark.parametrize("name", ["../birds", "a/b", " birds", "birds\n", "\x1b[31mred", "\ud800"])
def test_names_that_could_be_taken_for_something_else_are_refused(name, model, pictures):
    with pytest.raises(UserError, match="cannot be the name of a task"):
        model.learn(pictures / "trees", name)


def test_a_class_may_stand_in_two_tasks_if_that_is_wanted(model, pictures):
    model.learn(pictures / "birds", "more birds", epochs=1, repeat_classes=True)
    best = model.predict(QUERIES[:1], top=9)[0].best
    assert {(task, name) for task, name, _ in best} >= {("birds", "crow"), ("more birds", "crow")}


# ---- forgetting


def test_forgetting_frees_exactly_what_only_that_task_used_and_redraws_what_no_other_reads(model, pictures):
    model.learn(pictures / "trees", epochs=QUICK)
    masks = {info.name: kept.mask for info, kept in zip(model.tasks, model.specialists.subnetworks, strict=True)}
    before = {name: answers(model, name) for name in ("birds", "trees")}
    only = masks["fish"] & ~masks["birds"] & ~masks["trees"]
    weight = model.specialists.neurons.layers[0].module.weight.detach().clone()
    assert model.forget("fish") == int(only.sum()) > 0
    assert torch.equal(model.specialists.frozen, masks["birds"] | masks["trees"])
    here = ~model.specialists.frozen[model.specialists.neurons.layers[0].neurons]
    moved = (model.specialists.neurons.layers[0].module.weight != weight).flatten(1).any(1)
    assert torch.equal(moved, here)
    for one in (model, Model.open(model.path)):
        assert all_unchanged(one)
        assert {name: answers(one, name) for name in before} == before
        assert {name for best in answers(one, None) for _, name, _ in best} == {*BIRDS, *TREES}
    assert not any("fish" in name for name in contents(model.path))


@pytest.mark.parametrize("name", ["birds", "fish"])
def test_after_forgetting_there_is_room_for_a_new_task(name, model, pictures):
    (other,) = {"birds", "fish"} - {name}
    before = answers(model, other)
    model.forget(name)
    model.learn(pictures / "trees", epochs=QUICK)
    assert answers(model, other) == before
    assert [info.uid for info in model.tasks] == [int(other == "fish"), 2], "a number is never given again"
    assert all_unchanged(Model.open(model.path))


def test_a_model_may_forget_everything_and_start_again(model, pictures):
    model.forget("birds")
    model.forget("fish")
    assert not model.specialists.frozen.any()
    assert Model.open(model.path).verify() == []
    with pytest.raises(UserError, match="learned nothing yet"):
        model.predict(QUERIES)
    model.learn(pictures / "birds", epochs=1)
    assert all_unchanged(Model.open(model.path))


def test_nothing_of_the_norm_layers_of_a_forgotten_task_is_left(model):
    birds, fish = model.specialists.subnetworks
    means = [name for name in fish.norm if name.endswith("running_mean")]
    model.forget("fish")
    assert all(torch.equal(model.specialists.body.state_dict()[name], birds.norm[name]) for name in means)
    model.forget("birds")
    body = Store(model.path).read().states["network"]["body"]
    assert not any(body[f"body.{name}"].any() for name in means)


def test_replacing_forgets_the_old_task_and_keeps_the_others(model, pictures):
    before = answers(model, "fish")
    model.learn(pictures / "trees", "birds", replace=True, epochs=QUICK)
    assert [info.name for info in model.tasks] == ["fish", "birds"]
    assert model.task("birds").classes == TREES
    assert answers(model, "fish") == before
    model.learn(pictures / "birds", "birds", replace=True, epochs=1)
    assert model.task("birds").classes == BIRDS
    assert all_unchanged(Model.open(model.path))


def test_an_unknown_task_cannot_be_forgotten(model):
    with pytest.raises(UserError, match=r"no task called 'fihs'. Did you mean 'fish'\?"):
        model.forget("fihs")


# ---- answers


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
        ([1, 2], "Item 0 is no pair"),
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


# ---- a network of one's own


class Own(nn.Module):
    def __init__(self, extra: nn.Module | None = None, n: int = 12) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.one, self.norm, self.two = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Conv2d(8, n, 3, stride=2)
        self.extra = extra if extra is not None else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.extra(torch.relu(self.two(torch.relu(self.norm(self.one(x)))))).mean((2, 3))


class Undecided(Own):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) if x.sum() > 0 else super().forward(-x)


def test_a_network_of_ones_own_learns_and_is_needed_to_open_the_model(pictures, tmp_path):
    model = Model.create(tmp_path / "own.snv", network=Own(), size=16)
    for name in ("birds", "fish"):
        model.learn(pictures / name, epochs=2)
    assert all_unchanged(model)
    with pytest.raises(UserError, match="network of your own; give it again"):
        Model.open(model.path)
    with pytest.raises(UserError, match="Give the network it was made with"):
        Model.open(model.path, network=Own(n=13))
    again = Model.open(model.path, network=Own())
    assert answers(again, None) == answers(model, None)
    assert all_unchanged(again)


AGAIN = nn.Conv2d(12, 12, 1)
UNCUT = {
    "a norm without weights": (Own(nn.GroupNorm(2, 12, affine=False)), "turns the zeros of silent neurons"),
    "a sigmoid": (Own(nn.Sigmoid()), "turns the zeros of silent neurons"),
    "grouped convolution": (Own(nn.Conv2d(12, 12, 1, groups=3)), "cut out"),
    "weight norm": (Own(nn.utils.parametrizations.weight_norm(nn.Conv2d(12, 12, 1))), "computed from other tensors"),
    "spectral norm": (Own(nn.utils.spectral_norm(nn.Conv2d(12, 12, 1))), "computed from other tensors"),
    "a layer twice": (Own(nn.Sequential(AGAIN, nn.ReLU(), AGAIN)), "calls a Conv2d layer twice"),
    "a decision": (Undecided(), "cut out"),
}


@pytest.mark.parametrize(("module", "message"), UNCUT.values(), ids=UNCUT)
def test_a_network_that_cannot_be_cut_is_refused_before_anything_is_learned(module, message, tmp_path):
    with pytest.raises(UserError, match=message):
        Model.create(tmp_path / "own.snv", network=module, size=16)
    assert not (tmp_path / "own.snv").exists()


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        ({"network": nn.Conv2d(3, 4, 3)}, r"gives \(2, 4, 14, 14\)"),
        ({"network": nn.Linear(3, 4)}, "cannot read images"),
        ({"network": "resnet"}, "Did you mean 'resnet18'"),
        ({"channels": 2}, "1 channel .* or 3"),
        ({"size": 0}, "at least 1"),
        ({"capacity": 0.0}, "capacity"),
        ({"device": "cuda:99"}, "Device 'cuda:99' cannot be used"),
    ],
)
def test_what_cannot_be_made_is_refused_with_a_reason(options, answer):
    with pytest.raises(UserError, match=answer):
        small_model(**{"width": None} | options)


def test_a_network_is_given_only_to_models_made_with_one(model):
    with pytest.raises(UserError, match="made with the network 'convnet'"):
        Model.open(model.path, network=Own())


# ---- proof


def first_weight(model: Model) -> torch.Tensor:
    """Weights of a neuron that only the first task uses."""
    birds, fish = model.specialists.subnetworks
    only = model.specialists.neurons.by_layer(birds.mask & ~fish.mask)
    layer, here = next((layer, here) for layer, here in only if here.any())
    return layer.module.weight.data[here.nonzero()[0, 0], 0, 0]


CHANGES = {
    "a weight": first_weight,
    "a head": lambda model: model.specialists.network.heads[0].bias.data,
    "a norm layer": lambda model: next(
        x for x in model.specialists.subnetworks[0].norm.values() if x.is_floating_point()
    ),
}


@pytest.mark.parametrize("part", CHANGES.values(), ids=CHANGES)
def test_a_single_changed_number_is_found_and_the_other_task_is_not_blamed(part, model):
    flat = part(model).view(-1)
    flat[0] = torch.nextafter(flat[0], flat[0] + 1)
    birds, fish = model.verify()
    assert (birds.unchanged, birds.told) == (False, "its weights changed")
    assert fish.unchanged


def tampered_with(model: Model, what: str, change) -> None:
    """One number or name that answers without the task are computed from, changed where it lives."""
    t, tensors = 1, evidence(model)
    if what in tensors:
        change(tensors[what])
    elif what == "class names":
        model.tasks[t] = dataclasses.replace(model.tasks[t], classes=model.tasks[t].classes[::-1])
    elif what == "name":
        model.tasks[t] = dataclasses.replace(model.tasks[t], name="fishes")
    elif what == "picture format":
        model.knowledge.preprocess = dataclasses.replace(model.knowledge.preprocess, std=(0.5, 0.5, 0.51))
    else:
        field = what.replace(" ", "_")
        found = torch.tensor(getattr(model.tasks[t], field), dtype=torch.float64)
        change(found)
        model.tasks[t] = dataclasses.replace(model.tasks[t], **{field: found.item()})


def evidence(model: Model, t: int = 1) -> dict[str, torch.Tensor]:
    """The statistics of task t, named as `verify` names them."""
    kept = model.specialists.statistics[t]
    means = {f"class means in task {s + 1}": mean for s, mean in enumerate(kept.means)}
    return {"energy": kept.energy, "covariance": kept.covariance, **means}


def one_ulp(x: torch.Tensor) -> None:
    flat = x.view(-1)
    flat[-1] = torch.nextafter(flat[-1], flat[-1] + 1)


STATISTICS = ("energy", "covariance", "class means in task 1", "class means in task 2")
OPEN = (*STATISTICS, "open temperature")
BOTH = ("class names", "name", "picture format")


@pytest.mark.parametrize("what", OPEN)
def test_one_changed_number_of_what_open_answers_need_is_found_and_named(what, model):
    tampered_with(model, what, one_ulp)
    birds, fish = model.verify()
    named = f"its evidence changed ({what})" if what in STATISTICS else f"its {what} changed"
    assert (fish.unchanged, fish.known, fish.evidence, fish.told_open) == (False, True, False, named)
    assert birds.unchanged, "another task is not blamed"


@pytest.mark.parametrize("what", [*BOTH, "temperature"])
def test_a_changed_name_format_or_temperature_is_found_and_named(what, model):
    tampered_with(model, what, one_ulp)
    fish = model.verify()[1]
    assert (fish.unchanged, fish.known) == (False, False)
    assert f"its {what} changed" in fish.told
    assert fish.evidence is (what == "temperature"), "a task's own temperature is not read by open answers"


@pytest.mark.parametrize("what", [*BOTH, "temperature", "open temperature"])
def test_nothing_is_learned_on_top_of_a_task_whose_names_or_temperatures_changed(what, model, pictures):
    tampered_with(model, what, one_ulp)
    with pytest.raises(UserError, match=f"is not what it was when it was learned: its {what} changed. Restore"):
        model.learn(pictures / "trees", epochs=1)


def test_a_task_without_change_says_what_is_proved_and_what_is_not(model):
    for verdict in model.verify():
        assert (verdict.unchanged, verdict.known, verdict.evidence) == (True, True, True)
        assert verdict.told == "weights and answers are bit-identical, whatever is learned later"
        assert verdict.told_open == "evidence is bit-identical; the choice may differ as classes are added"


def test_tasks_in_another_order_are_found(model):
    store = Store(model.path)
    stored = store.read()
    with store.writing():
        store.write(stored.content | {"tasks": stored.content["tasks"][::-1]}, stored.states)
    verdicts = Model.open(model.path).verify()
    assert all("class means" in verdict.told_open for verdict in verdicts)
    assert not any(verdict.unchanged for verdict in verdicts)


FILES = [(f"task {t}", f"statistics.{part}") for t in (0, 1) for part in ("energy", "covariance", "means")]


@pytest.mark.parametrize(("state", "part"), FILES, ids=[f"{state}-{part}" for state, part in FILES])
def test_a_bit_flipped_in_a_file_whose_checksum_is_made_right_again_is_found(state, part, model):
    rng, store = random.Random(f"{state} {part}"), Store(model.path)
    stored = store.read()
    (kept,) = [kept for name, kept in stored.states.items() if name.startswith(state)]
    found = kept["statistics"][part.split(".")[1]]
    bytes_of = (rng.choice(found) if isinstance(found, list) else found).view(torch.uint8).view(-1)
    bytes_of[rng.randrange(len(bytes_of))] ^= 1 << rng.randrange(8)
    with store.writing():
        store.write(stored.content, stored.states)
    assert store.damage() == []
    verdicts = Model.open(model.path).verify()
    assert [verdict.unchanged for verdict in verdicts] == [state != "task 0", state != "task 1"]


def flip_a_bit(x: torch.Tensor, rng: random.Random) -> None:
    raw = x.view(-1)
    i = rng.randrange(len(raw))
    if x.dtype == torch.bool:
        raw[i] = ~raw[i]
    else:
        byte = raw[i : i + 1].view(torch.uint8)
        byte[rng.randrange(len(byte))] ^= 1 << rng.randrange(8)


def tamper(content: dict, states: dict, rng: random.Random) -> None:
    """Anything at all that is stored of a model, except the certificates themselves."""
    task, statistics = (
        rng.choice(content["tasks"]),
        rng.choice([kept for name, kept in states.items() if "task" in name]),
    )
    match rng.choice(["any tensor", "statistics", "statistics", "means", "classes", "temperature", "order", "spec"]):
        case "any tensor":
            flip_a_bit(rng.choice(tensors(rng.choice(list(states.values())))), rng)
        case "statistics":
            flip_a_bit(rng.choice(tensors(statistics["statistics"])), rng)
        case "means":
            mean = rng.choice(statistics["statistics"]["means"])
            mean.copy_(mean.flip(0) if rng.random() < 0.5 else mean * (1 + rng.choice([1e-7, 1e-3, 1.0])))
        case "classes":
            rng.shuffle(task["classes"])
        case "temperature":
            task[rng.choice(["temperature", "open_temperature"])] *= 1 + rng.choice([0, 1e-15, 1e-3, 1])
        case "order":
            rng.shuffle(content["tasks"])
        case "spec":
            content["spec"] |= rng.choice([{"seed": 7}, {"capacity": 0.5}, {"shape": [3, 15, 15]}])


def proved(path: Path) -> bool:
    try:
        return all(verdict.unchanged for verdict in Model.open(path).verify())
    except UserError:
        return False


@pytest.mark.parametrize("seed", range(30))
def test_after_tampering_open_answers_are_bit_identical_or_verify_fails(seed, model):
    rng, store, before = random.Random(seed), Store(model.path), answers(model, None)
    stored = store.read()
    for _ in range(rng.choice([1, 1, 2])):
        tamper(stored.content, stored.states, rng)
    with store.writing():
        store.write(stored.content, stored.states)  # every checksum is right
    assert not proved(model.path) or answers(Model.open(model.path), None) == before


# ---- models of the version before


def as_the_version_before_wrote_it(path: Path, monkeypatch) -> Model:
    """A directory of format 1: no task has a hash of evidence, names or temperatures."""
    directory = Store(path)
    stored = directory.read()
    for task in stored.content["tasks"]:
        del task["fingerprints"], task["certificate"]["evidence"]
    with monkeypatch.context() as patch, directory.writing():
        patch.setattr("snv.model.manifest.FORMAT", 1)
        directory.write(stored.content, stored.states)
    assert '"format": 1,' in (path / "model.json").read_text()
    return Model.open(path)


def test_a_model_of_the_version_before_verifies_with_the_task_known_and_says_what_was_not_certified(model, monkeypatch):
    before = answers(model, None)
    old = as_the_version_before_wrote_it(model.path, monkeypatch)
    assert answers(old, None) == before
    for verdict in old.verify():
        assert (verdict.unchanged, verdict.known, verdict.evidence) == (True, True, None)
        assert "bit-identical; the version of snv that wrote it certified no names and temperatures" in verdict.told
        assert verdict.told_open == "the version of snv that wrote it did not certify its evidence"
    one_ulp(old.specialists.network.heads[0].bias.data)
    birds, fish = old.verify()
    assert (birds.known, birds.evidence, fish.unchanged) == (False, False, True)
    assert birds.told == birds.told_open == "its weights changed"


def test_a_model_of_the_version_before_learns_saves_and_forgets(model, pictures, monkeypatch):
    old = as_the_version_before_wrote_it(model.path, monkeypatch)
    before = answers(old, "fish")
    old.learn(pictures / "trees", epochs=QUICK)
    assert [verdict.evidence for verdict in Model.open(old.path).verify()] == [None, None, True]
    old.forget("birds")
    again = Model.open(old.path)
    assert [(verdict.task, verdict.evidence) for verdict in again.verify()] == [("fish", None), ("trees", True)]
    assert all_unchanged(again)
    assert answers(again, "fish") == before
    one_ulp(again.specialists.statistics[1].means[0])
    assert again.verify()[1].told_open == "its evidence changed (class means in task 1)"


def test_a_certificate_that_lost_its_evidence_is_no_model_of_the_version_before(model):
    info = model.tasks[0]
    model.tasks[0] = dataclasses.replace(info, certificate=info.certificate | {"evidence": []})
    assert not model.verify()[0].unchanged


@pytest.mark.parametrize("forgotten", ["birds", "fish", "trees"])
def test_after_forgetting_the_evidence_of_the_others_is_still_proved(forgotten, model, pictures):
    model.learn(pictures / "trees", epochs=QUICK)
    model.forget(forgotten)
    for one in (model, Model.open(model.path)):
        assert [verdict.evidence for verdict in one.verify()] == [True, True]
        for t, kept in enumerate(one.specialists.statistics):
            assert len(one.specialists.certificates[t].evidence) == 2 + len(kept.means) == 3 + t
    for mean in model.specialists.statistics[1].means:
        kept = mean.clone()
        one_ulp(mean)
        assert model.verify()[1].evidence is False
        mean.copy_(kept)
    assert all_unchanged(model)


def test_answers_of_another_machine_are_compared_with_a_tolerance(model):
    info = model.tasks[0]
    model.tasks[0] = dataclasses.replace(info, certificate=info.certificate | {"logits": "computed elsewhere"})
    model.knowledge.probes[info.uid] = model.knowledge.probes[info.uid] + 1e-6
    assert model.verify()[0].unchanged
    model.knowledge.probes[info.uid] = model.knowledge.probes[info.uid] + 1e-2
    verdict = model.verify()[0]
    assert not verdict.unchanged
    assert "answers moved by 1.0e-02" in verdict.told


def test_the_audit_names_every_tensor_of_every_file_and_none_is_a_picture(model):
    rows = model.audit()
    stored = Store(model.path).read().states
    in_files = {name: sum(x.numel() * x.element_size() for x in tensors(state)) for name, state in stored.items()}
    listed: dict[str, int] = {}
    for part, name, shape, size, role in rows:
        assert role
        assert name
        assert size % max(1, int(np.prod(shape))) == 0
        listed[part] = listed.get(part, 0) + size
    assert listed == in_files
    assert len(rows) == len({row[:2] for row in rows}) == sum(len(tensors(state)) for state in stored.values())
    assert all(x.dtype != torch.uint8 for state in stored.values() for x in tensors(state))


def tensors(state: object) -> list[torch.Tensor]:
    if isinstance(state, torch.Tensor):
        return [state]
    inside = state.values() if isinstance(state, dict) else state if isinstance(state, list) else []
    return [x for part in inside for x in tensors(part)]


def test_the_status_is_what_the_tasks_and_the_files_say(model):
    status, masks = model.status(), [subnetwork.mask for subnetwork in model.specialists.subnetworks]
    assert [task.name for task in status.tasks] == ["birds", "fish"]
    assert status.neurons == tuple(int(mask.sum()) for mask in masks)
    assert status.used == int((masks[0] | masks[1]).sum()) < status.n_neurons
    assert status.files == {name: len(data) for name, data in contents(model.path).items()}
    assert status.bytes == sum(status.files.values())
    assert small_model().status().files == {}


def test_the_plan_counts_from_what_is_used(model):
    n, used = model.specialists.neurons.n, int(model.specialists.frozen.sum())
    budget = Budget(n, model.spec["capacity"], True, len(model.specialists.neurons.layers), int(0.4 * n))
    course, fit = model.plan(3)
    assert (course.n, course.before, len(course.new)) == (n, used, 3)
    assert (course, fit) == (budget.plan(3, used), budget.tasks_that_fit(used))
    assert model.plan(1, capacity=1.0)[0].new == (min(n - used, int(0.4 * n)),), "no subnetwork is larger than that"
    with pytest.raises(UserError, match="capacity"):
        model.plan(3, capacity=0.0)


def test_the_planner_counts_as_the_learner_does(model):
    learner = learner_around(model.knowledge, epochs=1)
    assert model.knowledge.budget() == learner.config.budget(model.specialists.neurons)


def test_a_task_cut_out_answers_as_the_model_does(model):
    small = model.deployable("fish")
    pixels = torch.from_numpy(drawn(FISH, 3)[0]).permute(0, 3, 1, 2)
    shares = (small(pixels / 255) / model.task("fish").temperature).softmax(1)
    torch.testing.assert_close(shares, model.probabilities(pixels, "fish"), atol=1e-5, rtol=0)
    assert sum(p.numel() for p in small.parameters()) < sum(p.numel() for p in model.specialists.body.parameters())


# ---- several at once


def test_readers_read_while_a_writer_holds_the_directory_and_a_second_writer_is_refused(model, pictures):
    before, asked = answers(model, None), []

    def meanwhile(what: str, *_: float) -> None:
        if what == "learning" and not asked:
            reader = Model.open(model.path)
            asked.append(answers(reader, None) == before and all_unchanged(reader))
            for change in (lambda: reader.learn(pictures / "trees"), lambda: reader.forget("fish"), reader.save):
                with pytest.raises(UserError, match="being changed by another process"):
                    change()

    model.learn(pictures / "trees", epochs=1, progress=meanwhile)
    assert asked == [True]
    assert len(Model.open(model.path).tasks) == 3


def test_what_another_process_learned_meanwhile_is_not_overwritten(model, pictures):
    other = Model.open(model.path)
    other.learn(pictures / "trees", epochs=1)
    for change in (lambda: model.learn(pictures / "trees"), lambda: model.forget("fish"), model.save):
        with pytest.raises(UserError, match=r"changed by another process since it was opened. Open it again"):
            change()
    assert len(Model.open(model.path).tasks) == 3


def test_a_model_is_not_written_over_another(model, tmp_path):
    with pytest.raises(UserError, match="holds a model already"):
        Model.create(model.path)
    early = small_model(tmp_path / "new.snv")
    model.save(tmp_path / "new.snv")
    for one in (early, small_model()):
        with pytest.raises(UserError, match="holds a model already"):
            one.save(tmp_path / "new.snv")
    assert len(Model.open(tmp_path / "new.snv").tasks) == 2


@pytest.mark.parametrize("change", [{"tasks": [{}]}, {"tasks": 3}, {"spec": {"network": "mlp"}}, {"next_uid": "x"}])
def test_a_directory_whose_parts_do_not_fit_together_is_refused_in_one_sentence(change, model):
    store = Store(model.path)
    stored = store.read()
    with store.writing():
        store.write(stored.content | change, stored.states)
    with pytest.raises(UserError, match="do not fit together"):
        Model.open(model.path)


# ---- in the manner of scikit-learn


def drawn(names: tuple[str, ...], each: int, start: int = 0) -> tuple[np.ndarray, np.ndarray]:
    images = [np.asarray(draw(name, start + i, (16, 16))) for name in names for i in range(each)]
    return np.stack(images), np.repeat(names, each)


def test_the_classifier_learns_classes_in_turns():
    classifier = SNVClassifier(width=8, epochs=2)
    images, labels = drawn(FISH, 12)
    assert classifier.partial_fit(images, labels) is classifier
    before = classifier.predict_proba(images, task=0)
    classifier.partial_fit(*drawn(("elm", "sequoia"), 12))
    assert classifier.classes_.tolist() == [*FISH, "elm", "sequoia"]
    assert classifier.n_tasks_ == 2
    np.testing.assert_array_equal(classifier.predict_proba(images, task=0), before)
    assert classifier.predict_proba(images).shape == (36, 5)
    np.testing.assert_allclose(classifier.predict_proba(images).sum(1), 1, atol=1e-5)
    new, names = drawn(("elm", "sequoia"), 10, 50)
    assert set(classifier.predict(new, task=1).tolist()) <= {"elm", "sequoia"}
    assert classifier.score(new, names) == (classifier.predict(new) == names).mean()
    with pytest.raises(UserError, match="2 tasks, counted from 0; got 2"):
        classifier.predict(new, task=2)
    classifier.fit(*drawn(BIRDS, 8))
    assert (classifier.classes_.tolist(), classifier.n_tasks_) == (list(BIRDS), 1)


@pytest.mark.parametrize("values", [[10.0, 2.0, -1.5], [10, 9, -3], ["b", "longer", "a"], [True, False]])
def test_the_classifier_answers_in_the_labels_it_was_given(values):
    images, _ = drawn(FISH[: len(values)], 6)
    classifier = SNVClassifier(epochs=1).fit(images, np.repeat(values, 6))
    assert classifier.classes_.tolist() == sorted(values)
    assert [str(c) for c in classifier.classes_.tolist()] == list(classifier.model_.tasks[0].classes)
    assert set(classifier.predict(images).tolist()) <= set(values)


def test_shorter_names_later_do_not_cut_off_the_earlier_ones():
    classifier = (
        SNVClassifier(epochs=1).partial_fit(*drawn(("sequoia", "elm"), 6)).partial_fit(*drawn(("ox", "yak"), 6))
    )
    assert classifier.classes_.tolist() == ["elm", "sequoia", "ox", "yak"]


def test_the_classifier_has_parameters_like_any_other():
    classifier = SNVClassifier(epochs=2)
    assert classifier.set_params(capacity=0.5, seed=3) is classifier
    assert SNVClassifier(**classifier.get_params()).get_params() == classifier.get_params()
    assert (classifier.get_params()["capacity"], classifier.get_params()["epochs"]) == (0.5, 2)
    with pytest.raises(UserError, match="no parameter 'depth'; it has network, width"):
        classifier.set_params(depth=3)
    with pytest.raises(UserError, match="learned nothing yet"):
        classifier.predict(np.zeros((1, 8, 8)))
    with pytest.raises(UserError, match="reshape"):
        classifier.fit(np.zeros((10, 64)), np.arange(10) % 2)
    with pytest.raises(UserError, match="10 images but 9 labels"):
        classifier.fit(np.zeros((10, 8, 8)), np.arange(9) % 2)
