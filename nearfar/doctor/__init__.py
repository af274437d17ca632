"""`nearfar doctor`: every layer between a camera and a far answer, tried for real and told in one line each."""
