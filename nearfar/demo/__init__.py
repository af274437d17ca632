"""`nearfar demo`: the main job on a real clip and a real model, over a link that goes bad and heals."""
