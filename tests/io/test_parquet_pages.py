"""Sizes of Parquet files, read from the headers of their pages before anything is unpacked."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crowdwise import errors
from crowdwise.io import parquet_pages, read
from crowdwise.io.parquet_pages import check_pages, read_flat_table
from crowdwise.learn.features.tables import file_features
from tests.helpers.reading import assert_read_fails


def unpacked(path):
    """Return the size that Arrow states in the footer, without the headers of pages that it includes."""
    with pq.ParquetFile(path) as file, path.open("rb") as stream:
        total = 0
        for group in range(file.metadata.num_row_groups):
            for index in range(file.metadata.num_columns):
                chunk = file.metadata.row_group(group).column(index)
                start = chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset
                found = parquet_pages._unpacked_size(stream, start, start + chunk.total_compressed_size)
                assert 0 <= chunk.total_uncompressed_size - found < 0.2 * chunk.total_uncompressed_size + 1000
                total += found
        return total


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", ["none", "snappy", "zstd", "gzip"])
def test_sizes_in_page_headers_agree_with_an_honest_footer(tmp_path, version, compression):
    rng = np.random.default_rng(0)
    table = pa.table({
        "number": rng.normal(size=5000), "text": [f"text {i % 700}" for i in range(5000)],
        "list": [[i, i + 1] for i in range(5000)], "gap": [None if i % 3 else i for i in range(5000)],
    })  # fmt: skip
    file = tmp_path / "a.parquet"
    pq.write_table(
        table, file, compression=compression, data_page_version=version, data_page_size=4000, row_group_size=2000,
        write_page_checksum=True, write_statistics=True,
    )  # fmt: skip
    assert unpacked(file) > 5000 * 8


def bomb(path, **options):
    """Write 20 answers and a text of 100 MB, which take a few kB."""
    texts = ["x" * 10**8] + ["y"] * 19
    table = pa.table({"task": range(20), "worker": ["w"] * 20, "label": texts, "short": ["x"] * 20})
    pq.write_table(table, path, compression="zstd", **options)
    assert path.stat().st_size < 200_000
    return path


@pytest.mark.parametrize("use_dictionary", [True, False])
def test_a_page_that_unpacks_to_a_multiple_of_the_file_is_rejected(tmp_path, use_dictionary):
    file = bomb(tmp_path / "a.parquet", use_dictionary=use_dictionary, write_statistics=False)
    for options in ({}, {"format": "cleanlab"}, {"format": "argilla"}):
        assert_read_fails(errors.TooLargeError, r"a\.parquet: .* over 200 times as many", file, **options)
    assert read(file, label="short").n_answers == 20  # the long text is not read
    with pytest.raises(errors.TooLargeError):
        file_features(file, None)


def test_the_footer_is_not_believed(tmp_path):
    """A forged footer may state a small size; Arrow allocates what the header of the page says."""
    file = bomb(tmp_path / "a.parquet", use_dictionary=False, write_statistics=False)

    class Lying:
        """A file whose footer states that nothing has a size."""

        def __init__(self, metadata):
            self.metadata, self.total_uncompressed_size = metadata, 0

    with pq.ParquetFile(file) as opened, pytest.raises(errors.TooLargeError):
        check_pages(file, Lying(opened.metadata))


def test_tables_with_another_number_of_rows_are_rejected(tmp_path):
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"task": np.zeros(10**6, np.int64)}), file)
    with pytest.raises(ValueError, match="1,000,000 rows, not 50"):
        read_flat_table(file, 50)
    assert read_flat_table(file, 10**6).num_rows == 10**6


def test_a_text_that_many_rows_repeat_is_rejected_before_it_is_repeated(tmp_path):
    """A page of 1 MB, which every row refers to."""
    text = pa.DictionaryArray.from_arrays(np.zeros(1000, np.int8), ["x" * 10**6])
    file, table = tmp_path / "a.parquet", pa.table({"task": range(1000), "worker": ["w"] * 1000, "label": text})
    pq.write_table(table, file, compression="zstd", store_schema=False)
    for options in ({}, {"format": "cleanlab"}, {"format": "argilla"}):
        assert_read_fails(errors.TooLargeError, r"a\.parquet: .* unpack to at least 1,000,000,000", file, **options)
    for read_table in (lambda: read_flat_table(file, 1000), lambda: file_features(file, None)):
        with pytest.raises(errors.TooLargeError, match="unpack to at least 1,000,000,000"):
            read_table()


def test_flat_tables_are_read_as_arrow_reads_them(tmp_path):
    table = pa.table({
        "id": ["a", None, "a"], "n": pa.array([1, None, 3], pa.int32()), "x": [0.5, 1.0, None],
        "b": [True, None, False],
        "long": pa.array(["a", "b", None], pa.large_string()), "none": pa.nulls(3), "text": pa.nulls(3, pa.string()),
    })  # fmt: skip
    pq.write_table(table, tmp_path / "a.parquet")
    assert read_flat_table(tmp_path / "a.parquet", 3).equals(pq.read_table(tmp_path / "a.parquet"))
