"""The cache of compiled code: its keys, its files, compilation, and loading without the compiler."""
