"""What near and every rung of far are worth, measured on a clip without labels, and written into the recipe."""
