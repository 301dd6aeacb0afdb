"""Any pretrained network in ONNX is a feature map; a file that is none is refused in one sentence."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from onnx_files import Maps, write_onnx
from snv.errors import UserError
from snv.networks import OnnxSpace, read_pretrained

HALF = (0.5, 0.5, 0.5)


def standardised(n: int = 40, size: int = 12, channels: int = 3, seed: int = 1) -> torch.Tensor:
    pixels = torch.rand(n, channels, size, size, generator=torch.Generator().manual_seed(seed))
    return (pixels - 0.5) / 0.5


def plain_features(images: torch.Tensor, network: nn.Module, mean: tuple, std: tuple, size: int) -> torch.Tensor:
    """The same by hand: back to pixels, resized, standardised as the file wants it."""
    pixels = images.double() * 0.5 + 0.5
    pixels = F.interpolate(pixels, (size, size), mode="bilinear", align_corners=False)
    seen = (pixels - torch.tensor(mean).double().view(3, 1, 1)) / torch.tensor(std).double().view(3, 1, 1)
    return network.double()(seen).float()


@pytest.mark.parametrize("averaged", [True, False], ids=["features", "maps"])
@pytest.mark.parametrize("batch", [None, 1], ids=["any batch", "one by one"])
def test_features_are_those_of_the_network_for_pictures_as_it_was_trained(tmp_path, averaged, batch):
    path = write_onnx(tmp_path / "net.onnx", Maps(averaged=averaged), batch=batch)
    mean, std = (0.4, 0.5, 0.6), (0.2, 0.3, 0.4)
    file = read_pretrained(path, mean=mean, std=std)
    assert (file.size, file.n_features) == (12, 5)
    images = standardised(size=9)
    with torch.no_grad():
        expected = plain_features(images, Maps(), mean, std, 12)
    torch.testing.assert_close(OnnxSpace(file, HALF, HALF)(images), expected, atol=1e-5, rtol=1e-4)


def test_a_file_that_takes_any_size_is_given_the_one_asked_for_or_224(tmp_path):
    path = write_onnx(tmp_path / "net.onnx", size=None)
    assert read_pretrained(path).size == 224
    assert read_pretrained(path, size=16).size == 16


def test_grey_pictures_are_seen_as_rgb(tmp_path):
    space = OnnxSpace(read_pretrained(write_onnx(tmp_path / "net.onnx")), (0.5,), (0.5,))
    grey = standardised(channels=1)
    same = OnnxSpace(read_pretrained(tmp_path / "net.onnx"), HALF, HALF)
    assert torch.allclose(space(grey), same(grey.expand(-1, 3, -1, -1)))


def test_features_are_scaled_by_the_first_images_to_be_around_one(tmp_path):
    loud = Maps()
    loud.conv.weight.data *= 1000
    space = OnnxSpace(read_pretrained(write_onnx(tmp_path / "net.onnx", loud)), HALF, HALF)
    space.fit(standardised())
    assert float(space(standardised()).square().mean().sqrt()) == pytest.approx(1, abs=1e-4)
    before = space.scale.clone()
    space.fit(standardised())
    assert torch.equal(space.scale, before), "fitted again it is the same"


def test_an_image_has_the_same_features_in_any_company(tmp_path):
    space = OnnxSpace(read_pretrained(write_onnx(tmp_path / "net.onnx")), HALF, HALF)
    images = standardised(70)
    assert torch.allclose(space(images), torch.cat([space(image[None]) for image in images]), atol=1e-6)


def test_all_it_depends_on_is_in_its_state_and_copies_run(tmp_path):
    files = [read_pretrained(write_onnx(tmp_path / f"{n}.onnx", Maps(), size=size)) for n, size in enumerate((12, 20))]
    space, other = (OnnxSpace(file, HALF, HALF) for file in files)
    space.fit(standardised())
    images = standardised(3)
    space(images), other(images)  # sessions are open
    other.load_state_dict(
        {name: x for name, x in space.state_dict().items() if name != "file"} | {"file": other.file}, strict=True
    )
    assert other.size == 12
    same = OnnxSpace(files[0], HALF, HALF)
    same.load_state_dict(space.state_dict())
    assert torch.equal(same(images), space(images))
    assert torch.equal(copy.deepcopy(space)(images), space(images))


class Noisy(Maps):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return super().forward(images) + torch.randn_like(images[:, :1, 0, 0])


class Companionable(Maps):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features = super().forward(images)
        return features - features.mean(0)


class Constant(Maps):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return super().forward(images) * 0 + 1


class Infinite(Maps):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return super().forward(images) / 0


class Single(Maps):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return super().forward(images).mean(1, keepdim=True)


BAD = {
    "other features each time": (Noisy(), {}, "gives other features for the same image. Export it in evaluation mode"),
    "depends on neighbours": (Companionable(), {}, "sees an image differently beside others"),
    "constant": (Constant(), {}, "gives the same features for every image"),
    "not numbers": (Infinite(), {}, "features that are not numbers"),
    "one number": (Single(), {}, r"its first output is \(4, 1\) for 4 images. Export the layer before"),
    "one channel": (nn.Conv2d(1, 4, 3), {"channels": 1}, r"needed is one input of floats \(batch, 3, height, width\)"),
    "fixed batch": (Maps(), {"batch": 7}, "takes batches of exactly 7 images. Export it with a free batch size"),
}


@pytest.mark.parametrize(("network", "options", "told"), BAD.values(), ids=BAD)
def test_a_network_that_cannot_serve_is_refused_in_one_sentence(tmp_path, network, options, told):
    path = write_onnx(tmp_path / "net.onnx", network, **options)
    with pytest.raises(UserError, match=told) as refusal:
        read_pretrained(path)
    assert "net.onnx" in str(refusal.value) and "\n" not in str(refusal.value)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 a zip", b"\x08\x07" * 40], ids=["empty", "zip", "noise"])
def test_a_file_that_is_not_onnx_is_refused(tmp_path, content):
    (tmp_path / "net.onnx").write_bytes(content)
    with pytest.raises(UserError, match="is not an ONNX file that can be run"):
        read_pretrained(tmp_path / "net.onnx")


def test_a_file_cut_short_is_refused(tmp_path):
    path = write_onnx(tmp_path / "net.onnx")
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(UserError, match=r"net\.onnx"):
        read_pretrained(path)


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    for path, words in (
        (tmp_path / "none.onnx", "cannot be read .* Give an ONNX file"),
        (tmp_path, "no.*ordinary file"),
    ):
        with pytest.raises(UserError, match=words):
            read_pretrained(path)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"size": 16}, "takes images of 12 × 12 pixels, not 16"),
        ({"mean": (0.5, 0.5)}, "three numbers each"),
        ({"std": (0.5, 0.0, 0.5)}, "deviations positive"),
    ],
)
def test_settings_that_do_not_fit_the_file_are_refused(tmp_path, options, told):
    with pytest.raises(UserError, match=told):
        read_pretrained(write_onnx(tmp_path / "net.onnx"), **options)


def test_a_side_out_of_range_is_refused(tmp_path):
    path = write_onnx(tmp_path / "net.onnx", size=None)
    for size in (4, 4096):
        with pytest.raises(UserError, match=f"8 to 1024 pixels; got {size}"):
            read_pretrained(path, size=size)


def test_a_file_that_is_too_slow_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("snv.networks.onnx_space.SLOWEST", 0.0)
    with pytest.raises(UserError, match=r"s for a picture, more than 0\. Use a smaller one"):
        read_pretrained(write_onnx(tmp_path / "net.onnx"))


def test_without_the_runtime_it_is_said_what_to_install(tmp_path, monkeypatch):
    path: Path = write_onnx(tmp_path / "net.onnx")
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    with pytest.raises(UserError, match=r"pip install 'snv\[export\]'"):
        read_pretrained(path)
