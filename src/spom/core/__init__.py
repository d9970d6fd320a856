"""What all packages share: protocols, the registry, compiled kernels, arrays, states."""
