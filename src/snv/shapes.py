"""The tensor vocabulary: shapes as part of the type, checked while tests run and free otherwise."""

from __future__ import annotations

from jaxtyping import Bool, Float, Int64, UInt8
from torch import Tensor

Images = Float[Tensor, "b c h w"]
Pixels = UInt8[Tensor, "b c h w"]
Labels = Int64[Tensor, " b"]
Logits = Float[Tensor, "b k"]
Features = Float[Tensor, "b f"]
Indices = Int64[Tensor, " _"]  # batches of one order differ in length
Values = Float[Tensor, " n"]  # one number per neuron
Mask = Bool[Tensor, " n"]  # one yes/no per neuron
Gates = Float[Tensor, "p n"]  # how far each neuron is open, in p copies of a network
Entries = Bool[Tensor, "..."]  # one yes/no per entry, of some axes of a tensor
