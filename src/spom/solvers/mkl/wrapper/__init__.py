"""Wrapper methods of multiple-kernel learning: Gauss-Seidel and SimpleMKL."""
