"""Compiled code that is kept: its key, its files, how it is made and how it is loaded without the compiler."""
