"""The trainer for all estimators that learn in passes."""

from spom.core.arrays import Arrays
from spom.estimators.training.checkpoint import KIND, Checkpoint
from spom.estimators.training.fingerprint import Fingerprint, described, digest, digest_of_file
from spom.estimators.training.trainer import Learner, Outcome, Trainer, all_or_nothing, kept_epoch, last_entry, shares

__all__ = [
    "KIND",
    "Arrays",
    "Checkpoint",
    "Fingerprint",
    "Learner",
    "Outcome",
    "Trainer",
    "all_or_nothing",
    "described",
    "digest",
    "digest_of_file",
    "kept_epoch",
    "last_entry",
    "shares",
]
