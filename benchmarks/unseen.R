# Writes the data frames of R packages that `python -m benchmarks unseen` reads, one CSV each:
#     Rscript benchmarks/unseen.R FOLDER
# Debian has the packages as r-cran-mlbench, r-cran-kernlab, r-cran-caret, r-cran-mclust, r-cran-modeldata and r-cran-mass.
folder <- commandArgs(trailingOnly = TRUE)[1]
dir.create(folder, showWarnings = FALSE)
for (package in c("mlbench", "kernlab", "MASS", "caret", "mclust", "modeldata")) {
  frames <- new.env()
  for (name in data(package = package)$results[, "Item"]) {
    name <- sub(" .*", "", name)
    try(data(list = name, package = package, envir = frames), silent = TRUE)
  }
  for (name in ls(frames)) {
    frame <- get(name, envir = frames)
    if (is.data.frame(frame) && nrow(frame) >= 80) {
      try(write.csv(frame, file.path(folder, paste0(package, "_", name, ".csv")), row.names = FALSE), silent = TRUE)
    }
  }
}
