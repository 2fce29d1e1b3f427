"""Image operators: `relay.image.resize2d` and its kin."""

from tilewright.relay.op.image.resampling import resize1d, resize3d
from tilewright.relay.op.image.resize import resize2d
from tilewright.relay.op.image.sampling import affine_grid, crop_and_resize, dilation2d, grid_sample

__all__ = ["affine_grid", "crop_and_resize", "dilation2d", "grid_sample", "resize1d", "resize2d", "resize3d"]
