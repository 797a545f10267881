from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from srrag.core.schema import EDGES, ENTITIES
from srrag.graph.tables import coding


def test_ids_are_written_as_they_are_and_all_else_is_compressed(tmp_path: Path) -> None:
    mention = {"unit_id": "u", "doc_id": "d", "name": "Knee", "char_start": 0, "char_end": 4}
    rows = [{"entity_id": f"{n:032x}", "name": "knee", "type": "", "mentions": []} for n in (1, 2)]
    table = pa.Table.from_pylist([{**row, "mentions": [mention]} for row in rows], schema=ENTITIES)
    path = tmp_path / "t.parquet"
    pq.write_table(table, path, **coding(ENTITIES, ["entity_id", "name"]))
    group = pq.read_metadata(path).row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    coded = {column.path_in_schema: column.compression for column in columns}
    places = {f"mentions.list.element.{name}" for name in ("unit_id", "doc_id")}
    raw = {name for name, compression in coded.items() if compression == "UNCOMPRESSED"}
    assert raw == {"entity_id", *places}
    assert {coded[name] for name in coded.keys() - raw} == {"ZSTD"}
    plain = [c.path_in_schema for c in columns if "RLE_DICTIONARY" not in c.encodings]
    assert plain == ["entity_id", "name", "mentions.list.element.name"]
    assert pq.read_table(path).equals(table)


def test_every_column_is_named(tmp_path: Path) -> None:
    for schema in (ENTITIES, EDGES):
        pq.write_table(schema.empty_table(), tmp_path / "t.parquet")
        assert set(coding(schema, [])["compression"]) == {
            column.path for column in pq.ParquetFile(tmp_path / "t.parquet").schema
        }
