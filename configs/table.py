"""A table of your own ratings, of which only what exists can be chosen.

Command:
  python -m launch.run --config=configs/table.py --config.path=ratings.csv --workdir=results/mine

The table has one rating a line: delimited text, plain or gzipped, or Parquet. Its rows are what
the model has loadings for: take the items as rows, the people, who are many, as columns. With
--config.rows=100 --config.columns=1000 the experiment is on the 100 rows rated most and the 1000
columns with most of these; ids.csv in the results tells which id each number there stands for. A
sparse table has fewer ratings than the usual horizon: set --config.horizon, or a lower
--config.rank.
"""

from ml_collections import config_dict

from configs import ratings


def get_config() -> config_dict.ConfigDict:
    """The experiment on a table of your own, with the settings for ratings.

    Fields:
      path: the file.
      read_columns: where the row's id, the column's id and the rating are: names in the header, or
        positions from 0, separated by commas.
      encoding: of the text; latin-1 for many older files.
      duplicates: what a pair that is rated again means: error, last or mean.
      rows: D; none is all rows of the table.
      columns: N; none is all columns of the table.
      checksum: SHA-256 of the file; it is filled in, and a record with another one is refused.
    """
    config = ratings.get_config()
    config.data = "table"
    config.path = config_dict.placeholder(str)
    config.read_columns = "0,1,2"
    config.encoding = "utf-8"
    config.duplicates = "error"
    config.rows = config_dict.placeholder(int)
    config.columns = config_dict.placeholder(int)
    config.checksum = config_dict.placeholder(str)
    return config
