"""The model in the manner of scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest

from drawn import BIRDS, FISH
from snv import SNVClassifier, UserError
from taught import images_and_labels


def test_the_classifier_learns_classes_in_turns():
    classifier = SNVClassifier(width=8, epochs=2)
    images, labels = images_and_labels(FISH, 12)
    assert classifier.partial_fit(images, labels) is classifier
    before = classifier.predict_proba(images, task=0)
    classifier.partial_fit(*images_and_labels(("elm", "sequoia"), 12))
    assert classifier.classes_.tolist() == [*FISH, "elm", "sequoia"]
    assert classifier.n_tasks_ == 2
    np.testing.assert_array_equal(classifier.predict_proba(images, task=0), before)
    assert classifier.predict_proba(images).shape == (36, 5)
    np.testing.assert_allclose(classifier.predict_proba(images).sum(1), 1, atol=1e-5)
    new, names = images_and_labels(("elm", "sequoia"), 10, 50)
    assert set(classifier.predict(new, task=1).tolist()) <= {"elm", "sequoia"}
    assert classifier.score(new, names) == (classifier.predict(new) == names).mean()
    with pytest.raises(UserError, match="2 tasks, counted from 0; got 2"):
        classifier.predict(new, task=2)
    classifier.fit(*images_and_labels(BIRDS, 8))
    assert (classifier.classes_.tolist(), classifier.n_tasks_) == (list(BIRDS), 1)


@pytest.mark.parametrize("values", [[10.0, 2.0, -1.5], [10, 9, -3], ["b", "longer", "a"], [True, False]])
def test_the_classifier_answers_in_the_labels_it_was_given(values):
    images, _ = images_and_labels(FISH[: len(values)], 6)
    classifier = SNVClassifier(epochs=1).fit(images, np.repeat(values, 6))
    assert classifier.classes_.tolist() == sorted(values)
    assert [str(c) for c in classifier.classes_.tolist()] == list(classifier.model_.tasks[0].classes)
    assert set(classifier.predict(images).tolist()) <= set(values)


def test_shorter_names_later_do_not_cut_off_the_earlier_ones():
    classifier = (
        SNVClassifier(epochs=1)
        .partial_fit(*images_and_labels(("sequoia", "elm"), 6))
        .partial_fit(*images_and_labels(("ox", "yak"), 6))
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
