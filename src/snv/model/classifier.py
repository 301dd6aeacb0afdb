"""The model in the manner of scikit-learn: ``fit`` starts anew, ``partial_fit`` adds a task of new classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from snv.errors import UserError
from snv.model.model import Model
from snv.model.pictures import as_pixels
from snv.networks import Pretrained

PARAMETERS = ("network", "width", "capacity", "epochs", "seed", "features")


class SNVClassifier:
    """Images (n, h, w) or (n, h, w, c), uint8 or floats in [0, 1]; square, or scaled and cropped to a square.

    Every call of ``partial_fit`` brings classes not seen before; earlier answers within their task never change.
    """

    classes_: NDArray[Any]  # once fitted, in the order in which they came

    def __init__(
        self,
        network: str = "auto",
        width: int | None = None,
        capacity: float = 0.3,
        epochs: int | None = None,
        seed: int = 0,
        features: Pretrained | str | None = None,
    ) -> None:
        """``features``: an ONNX file with a pretrained network, in whose features all classes are compared."""
        self.network, self.width, self.capacity, self.epochs, self.seed = network, width, capacity, epochs, seed
        self.features = features

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002
        return {name: getattr(self, name) for name in PARAMETERS}

    def set_params(self, **params: Any) -> SNVClassifier:
        for name, value in params.items():
            if name not in self.get_params():
                raise UserError(f"SNVClassifier has no parameter {name!r}; it has {', '.join(self.get_params())}.")
            setattr(self, name, value)
        return self

    def fit(self, X: ArrayLike, y: ArrayLike) -> SNVClassifier:  # noqa: N803
        """Forget everything and learn these images as the first task."""
        self.model_: Model | None = None
        return self.partial_fit(X, y)

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> SNVClassifier:  # noqa: N803, ARG002
        """Learn these images as the next task."""
        images, labels = self._images(X), np.asarray(y)
        if len(images) != len(labels):
            raise UserError(f"There are {len(images)} images but {len(labels)} labels. Give one label per image.")
        model = getattr(self, "model_", None) or self._created(images)
        earlier, new = self.classes_ if model.tasks else np.unique(labels)[:0], np.unique(labels)
        model.learn((images, labels), epochs=self.epochs)
        self.model_ = model
        self.classes_ = np.concatenate([earlier, new])
        self.n_tasks_ = len(model.tasks)
        return self

    def predict(self, X: ArrayLike, task: int | None = None) -> NDArray[Any]:  # noqa: N803
        """The most probable class of each image, among all classes or those of a task (counted from 0)."""
        best = self.predict_proba(X, task).argmax(1)
        labels: NDArray[Any] = self._classes(task)[best]
        return labels

    def predict_proba(self, X: ArrayLike, task: int | None = None) -> NDArray[Any]:  # noqa: N803
        """Calibrated probabilities in the order of ``classes_``, or of the task's classes."""
        model = self._fitted()
        shape = model.knowledge.preprocess.shape
        pixels = torch.stack([as_pixels(image, shape, f"Image {i}") for i, image in enumerate(self._images(X))])
        if task is not None and not 0 <= task < len(model.tasks):
            raise UserError(f"There are {len(model.tasks)} tasks, counted from 0; got {task}.")
        name = None if task is None else model.tasks[task].name
        return model.probabilities(pixels, name).numpy()

    def score(self, X: ArrayLike, y: ArrayLike) -> float:  # noqa: N803
        """Share of images answered right among all classes."""
        return float((self.predict(X) == np.asarray(y)).mean())

    def _classes(self, task: int | None) -> NDArray[Any]:
        model = self._fitted()
        if task is None:
            return self.classes_
        block = model.knowledge.blocks()[task]
        return self.classes_[block.start : block.stop]

    def _fitted(self) -> Model:
        model: Model | None = getattr(self, "model_", None)
        if model is None:
            raise UserError("This classifier has learned nothing yet; call fit or partial_fit first.")
        return model

    def _images(self, X: ArrayLike) -> NDArray[Any]:  # noqa: N803
        images = np.asarray(X)
        if images.ndim not in (3, 4):
            raise UserError(
                f"X has the shape {images.shape}; expected images (n, h, w) or (n, h, w, c). Flat rows of pixels can "
                "be reshaped: X.reshape(-1, 28, 28)."
            )
        return images

    def _created(self, images: NDArray[Any]) -> Model:
        channels = 1 if images.ndim == 3 else images.shape[-1]
        size = max(images.shape[1:3])
        network = self.network if self.network != "auto" else ("convnet" if size <= 28 else "resnet18")
        return Model.create(
            network=network,
            size=size,
            channels=channels,
            width=self.width,
            capacity=self.capacity,
            features=self.features,
            seed=self.seed,
        )
