"""Learning and prediction from shards of data, on the cores of one machine or a Dask cluster; long streams."""

from spom.estimators.training.streams import Stream
from spom.scale.fitting import fit
from spom.scale.predicting import predict
from spom.scale.searching import Search, search
from spom.scale.shards import Shards

__all__ = ["Search", "Shards", "Stream", "fit", "predict", "search"]
