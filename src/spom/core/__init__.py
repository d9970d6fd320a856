"""What the rooms agree on: protocols, registry, compiled kernels, arrays, states."""
