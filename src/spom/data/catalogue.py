"""The public files of each data set: where their authors publish them, and the checksums of their content."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """One file: its path under the data folder, addresses, and the sha256 of its content, decompressed.

    `member` is the file's name inside the archive, if the address is that of an archive. A path that ends in .gz is
    stored gzipped.
    """

    path: str
    addresses: tuple[str, ...]
    sha256: str
    member: str | None = None


@dataclass(frozen=True)
class About:
    """A description of a data set: what it is, its size, and its licence."""

    what: str
    count: str
    licence: str


ABOUT = {
    "conll2000": About("chunks of English newspaper text", "8,936 + 2,012 sentences", "free for research"),
    "ewt": About("English Web Treebank, Universal Dependencies", "16,622 sentences", "CC BY-SA 4.0"),
    "landsat": About("six kinds of soil from satellite images", "6,435 rows of 36 numbers", "CC BY 4.0"),
    "mnist": About("handwritten digits", "70,000 images of 28 x 28", "CC BY-SA 3.0"),
    "ocr": About("handwritten words, one image per letter", "6,877 words, 52,152 letters", "free for research"),
    "polarity": About("sentences of film reviews, for or against", "10,662 sentences", "free for research"),
}

_MNIST = (
    "http://yann.lecun.com/exdb/mnist/{}",
    "https://ossci-datasets.s3.amazonaws.com/mnist/{}",
    "https://storage.googleapis.com/cvdf-datasets/mnist/{}",
)
_POLARITY = ("https://www.cs.cornell.edu/people/pabo/movie-review-data/rt-polaritydata.tar.gz",)
_LANDSAT = ("https://archive.ics.uci.edu/static/public/146/statlog+landsat+satellite.zip",)
_CHUNKING = "https://www.cnts.ua.ac.be/conll2000/chunking/{}"
# The release with exactly these files comes first if it is known; the sha256 decides.
_EWT = "https://raw.githubusercontent.com/UniversalDependencies/UD_English-EWT/{}/{}"
_EWT_RELEASES = ("r2.15", "r2.16", "r2.17", "r2.14", "r2.13", "master")


def _mnist(name: str, sha256: str) -> Source:
    return Source(f"mnist/{name}", tuple(address.format(name) for address in _MNIST), sha256)


def _ewt(part: str, sha256: str) -> Source:
    name = f"en_ewt-ud-{part}.conllu"
    return Source(f"ewt/{name}.gz", tuple(_EWT.format(release, name) for release in _EWT_RELEASES), sha256)


CATALOGUE: dict[str, tuple[Source, ...]] = {
    "conll2000": (
        Source(
            "conll2000/train.txt.gz",
            (_CHUNKING.format("train.txt.gz"),),
            "82033cd7a72b209923a98007793e8f9de3abc1c8b79d646c50648eb949b87cea",
        ),
        Source(
            "conll2000/test.txt.gz",
            (_CHUNKING.format("test.txt.gz"),),
            "73b7b1e565fa75a1e22fe52ecdf41b6624d6f59dacb591d44252bf4d692b1628",
        ),
    ),
    "ewt": (
        _ewt("train", "3fb78e2b55482c8ee00caa653af436c88c9e5bc9a73ce26e4ae3ddc79d2b7e7b"),
        _ewt("dev", "531a54ff90d6ab12201c5a50c3e78e6ddac4de69abc4bce5d275d3cd29efe2b6"),
        _ewt("test", "e266e515a0a7547657ed3d90d9ba46487d6bd251f27ad4269d4e8a427c8555cd"),
    ),
    "landsat": (
        Source(
            "landsat/sat.trn",
            _LANDSAT,
            "e896dc88a960fa2404160fc4c3cb3dc53fcf4afd80ba920bf2d261bd42d12613",
            member="sat.trn",
        ),
        Source(
            "landsat/sat.tst",
            _LANDSAT,
            "4b9167b8a92baafafed7c8809aef86d0683a5e685c19d98d119fa6974f0f2479",
            member="sat.tst",
        ),
    ),
    "mnist": (
        _mnist("train-images-idx3-ubyte.gz", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
        _mnist("train-labels-idx1-ubyte.gz", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
        _mnist("t10k-images-idx3-ubyte.gz", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
        _mnist("t10k-labels-idx1-ubyte.gz", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
    ),
    "ocr": (
        Source(
            "ocr/letter.data.gz",
            ("http://ai.stanford.edu/~btaskar/ocr/letter.data.gz",),
            "535363d0b7bc34246b1f8731719540f526b6807b12dda5d430d011d160bc7882",
        ),
    ),
    "polarity": (
        Source(
            "polarity/rt-polarity.neg.gz",
            _POLARITY,
            "614274f81185a850e5a88d533d4679f916d6f62e9af6f0b4ec71fb94bf466ea5",
            member="rt-polaritydata/rt-polarity.neg",
        ),
        Source(
            "polarity/rt-polarity.pos.gz",
            _POLARITY,
            "c2dc6b2f55bcf725725372916287cc3f8f9b19402edaa9167de5287cb3ade421",
            member="rt-polaritydata/rt-polarity.pos",
        ),
    ),
}
