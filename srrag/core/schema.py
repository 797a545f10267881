"""The relations of the data model; every step maps one of these tables to another.

Lists are empty, never null. The only nullable column is `reject`: if it is set, the named stage
rejected the row, and later steps skip it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

_TYPES = {
    "": pa.string(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "bool": pa.bool_(), "strings": pa.list_(pa.string()),
    "binary": pa.binary(), "large_binary": pa.large_binary(), "uint64": pa.uint64(),
}  # fmt: skip
Columns: TypeAlias = str | tuple[str, pa.DataType] | pa.Field


def columns(*told: Columns, nullable: bool = True) -> list[pa.Field]:
    """Columns in order; a text such as "title year:int" names several, strings where no type is.

    A field of pyarrow stands as it is.
    """
    made: list[pa.Field] = []
    for each in told:
        if isinstance(each, str):
            pairs = (item.partition(":") for item in each.split())
            made += [pa.field(name, _TYPES[kind], nullable) for name, _, kind in pairs]
        else:
            made.append(pa.field(*each, nullable) if isinstance(each, tuple) else each)
    return made


def _struct(*told: Columns) -> pa.StructType:
    return pa.struct(columns(*told))


def rows_of(*told: Columns) -> pa.ListType:
    """A list of structs with these columns."""
    return pa.list_(_struct(*told))


def non_null(*told: Columns) -> pa.Schema:
    """Make a schema of non-null columns; a field of pyarrow stands as it is."""
    return pa.schema(columns(*told, nullable=False))


REJECT = _struct("stage reason detail")


def relation(*told: Columns) -> pa.Schema:
    """Make a schema of non-null columns plus the nullable `reject` struct."""
    return non_null(*told).append(pa.field("reject", REJECT))


RAW = relation("raw_id source source_id format body:large_binary")

DOCUMENTS = relation(
    "doc_id source source_id title text grade grade_source grade_evidence year:int pmid",
    "condition metadata",
)

# What records say of papers: `about` is an id ("pmid:1", "doi:10.1/x", "pmcid:PMC1"), or "" for the
# record itself, `link` the paper that says it, "" where none is named.
NOTICES = relation("doc_id source_id about standing link said_by")

UNITS = relation(
    "unit_id doc_id view parent_id order:int section char_start:int char_end:int text",
    "num_tokens:int grade repairs:int",
)

TRIPLES = relation(
    "fact_id doc_id unit_id kind head head_type relation tail tail_type char_start:int",
    "char_end:int quote confidence:float grade",
)

# What is told in a stretch of a document: facts as in TRIPLES and findings as in FINDINGS, without
# ids and places in the corpus; `reason` is "" for what stands.
FACT = _struct(
    "kind head head_type relation tail tail_type char_start:int char_end:int quote",
    "confidence:float reason",
)
STATED = _struct(
    "kind interventions:strings comparators:strings outcome times:strings people:strings",
    "direction effect interval p",
    ("places", rows_of("start:int end:int")),
    "quote confidence:float reason",
)
EXTRACTS = relation(
    "unit_id doc_id char_start:int char_end:int text grade",
    ("facts", pa.list_(FACT)),
    ("findings", pa.list_(STATED)),
)

# What a document reports on one outcome: `kind` is found, concluded, planned or background,
# `direction` better, worse, more, less (each also "tends …": a trend, or an untested difference),
# "no difference", "not inferior", differs or unclear, of the outcome under the interventions
# together against the comparators together, or since before; "" for a plan and for figures of one
# group. Effect, interval and p stand as printed, "" where none is told; `people` names those that
# it holds for, if not all. A comparison of effects between people has them as interventions and
# comparators, and EFFECT_OF … as outcome. `places` are the sentences that state it, as characters
# of the document's text, and `quote` their words.
EFFECT_OF = "effect of "
TENDS = "tends "
"""Before a direction of FINDINGS: a trend, or a difference that no test confirms."""
FINDINGS = relation(
    "finding_id doc_id unit_id grade",
    *((field.name, field.type) for field in STATED if field.name != "reason"),
)

# The keywords of a document (EbmKG, section 3.2), shared by its units.
KEYWORD = _struct("name type mesh")
KEYED_DOCUMENTS = relation("doc_id title text grade", ("keywords", pa.list_(KEYWORD)))

# The text units u = <c_u, K_u> of EbmKG. The span counts characters of the document's text.
KEYED_UNITS = relation(
    "unit_id doc_id title char_start:int char_end:int text grade", ("keywords", pa.list_(KEYWORD))
)

# Pieces of evidence (EbmKG, Eq. 1) of a unit on a keyword, `label` the hyper-relation, with the
# entities that they name (Eq. 2), `mesh` "" for what MeSH does not have. The span counts characters
# of the document's text, −1 and −1 for a text that is not verbatim.
INCIDENCE = relation(
    "evidence_id doc_id unit_id keyword keyword_type label text char_start:int char_end:int",
    "grade",
    ("entities", pa.list_(KEYWORD)),
)

FINDING_VECTORS = relation("evidence_id vector:binary")

# The topics that a question's walk leads to, best first.
TOPICS = rows_of("topic:int text visits:float score:float")

# What the topics say on a question, each with its usefulness from 0 to 10 (EbmKG, Eq. 10);
# `evidence` is the row of the finding that a feature repeats, −1 for none.
FEATURES = rows_of("text score:float evidence:int")

# Findings in order of their attention scores (EbmKG, Eq. 9).
RANKED_FINDINGS = rows_of("evidence:int score:float")

# One forward pass fills both: the sentence vector (float32) and the token vectors for MaxSim
# (int8, row-major num_tokens × dim, one float16 scale a token).
VECTORS = relation(
    "unit_id text_key:uint64 vector:binary tokens:large_binary token_scales:binary cut:bool"
)

# The titles of documents that have one, each with its sentence vector (float32).
TITLES = relation("doc_id vector:binary")

REJECTS = non_null("stage row_id source reason detail")

MENTION = _struct("unit_id doc_id char_start:int char_end:int")
# A mention keeps the values that its row's are chosen from, so that a row can lose a mention.
ENTITY_MENTION = _struct("name", *MENTION)
EDGE_MENTION = _struct("confidence:float", *MENTION)

ENTITIES = non_null("entity_id name type", ("mentions", pa.list_(ENTITY_MENTION)))

EDGES = non_null(
    "edge_id kind head_id relation tail_id confidence:float", ("mentions", pa.list_(EDGE_MENTION))
)

COMMUNITIES = non_null("entity_id community_id")

# The knowledge tree (§4.3 of sr-rag): level 4 communities, 3 keywords, 2 entities and relations,
# 1 attributes. `ref_id` is the community, entity or edge of the node, `rank` its place
# among its siblings from 0, `model` who wrote `text` ("" for nobody).
PICOT = _struct(*"PICOT")

# What was said before a question: the message as it was written, earlier turns, and the papers that
# their answers cite as E1, E2 …; `recalled` marks those that the message speaks of.
CONVERSATION = _struct(
    "asked",
    ("turns", rows_of("question answer")),
    ("papers", rows_of("key line recalled:bool")),
)

QUESTIONS = relation(
    "query_id text topic narrative task_kind options:strings gold_option",
    ("picot", PICOT),
    ("conversation", CONVERSATION),
)

HIT = _struct("unit_id score:float rank:int")
HITS = pa.list_(HIT)

# Parallel to the hits of the graph: the node, edge and community behind each hit, "" for none.
PATHS = rows_of("entity_id edge_id community_id")

EVIDENCE_KINDS = ("window", "document", "bullet", "summary", "finding")

# `kind` is one of EVIDENCE_KINDS. The span counts characters of the document's text, −1 and −1 for
# a text that is not verbatim.
EVIDENCE = rows_of(
    "evidence_id kind unit_id doc_id source_id pmid grade title section year:int",
    "char_start:int char_end:int text score:float standing standing_link",
)

# Papers that were found but must not be cited, with their standing.
LEFT_OUT = rows_of("doc_id source_id pmid title standing standing_link")

# What an answer makes of a question's `options`: the index of one, NO_CHOICE for none.
CHOICE = pa.field("choice", pa.int32(), nullable=False)
NO_CHOICE = -1

# Whether there is to be an answer, telling words of the question that no evidence holds, those that
# the nearest paper holds, its title, the evidence (by id) that is on the question, the telling
# words that each piece of evidence and the rest of its paper lack, and the share of the question's
# weight that each word carries.
ANSWERABLE = _struct(
    "answers:bool lacking:strings near:strings nearest on_topic:strings",
    ("lacks", rows_of("evidence_id words:strings")),
    ("shares", rows_of("word share:double")),
)

# The words of a question that name its parts; an empty list is a part that it does not name.
ANCHORS = _struct(*(f"{name}:strings" for name in "PICOT"))

# The queries to the graph: `kind` is node, triple or community, `types` names of its schema.
SUBQUESTIONS = rows_of("kind text types:strings")

# Every find of every search: `round` counts from 1, `score` and `rank` are the channel's own on
# its track. Channels that do not search the graph leave its ids "".
FOUND = rows_of(
    "unit_id channel track round:int rank:int score:float entity_id edge_id community_id"
)

# The rounds of iterative retrieval: what was searched for, and what was made of it; `fault` says
# why there was no reflection, "" where there was one or none was due.
ROUNDS = rows_of("round:int question new_windows:int reflection sufficient:bool fault")

# Stretches of evidence, verbatim, and which parts of the question they state. The span counts
# characters of the evidence's text.
SNIPPETS = rows_of("evidence_id text char_start:int char_end:int reason parts:strings")

# Whether the evidence answers a question: wholly, in part, or not.
STATES = ("answered", "partly", "not")

# What the answer to a question of yes or no is; "" for other questions, and where nobody read one.
VERDICTS = ("yes", "no", "no difference", "mixed", "unclear", "")

# The sentences of an answer. `part` is one of PARTS; `places` are the characters of the `text` of
# the evidence that it rests on, empty where they are unknown.
PARTS = ("answer", "evidence", "limits")
PLACE = _struct("evidence_id start:int end:int")
SENTENCES = rows_of("text part evidence_ids:strings", ("places", pa.list_(PLACE)))

# What papers say to a question, by the one that answers it: `kind` is one of FINDING_KINDS, and the
# span counts characters of the evidence's `text`.
FINDING_KINDS = ("result", "recommendation", "planned", "background", "method")
ANSWER_FINDINGS = rows_of("text kind", *PLACE)

# What every answering step writes of a question: `answer` is the text as it is shown, `missing`
# what the evidence does not hold, `answer_note` what a reader has to know beside it.
ANSWER = tuple(
    non_null(
        "answer state verdict",
        ("sentences", SENTENCES),
        ("findings", ANSWER_FINDINGS),
        "missing",
        CHOICE,
        "answer_note model",
    )
)

# What became of an answer's sentences when they were checked against what they cite.
SUPPORT = _struct("sentences:int kept_sentences:int repaired_sentences:int")

# The sentences that did not stand as written: `fault` says why (a verdict of
# CheckAnswer, or one of the KINDS of vetoes), `reason` is the judge's own, `repaired` the
# sentence that stands instead, "" where none does.
UNSUPPORTED = rows_of("text fault evidence_ids:strings reason repaired")

# Statements that an answer has to make; `importance` is vital or okay.
NUGGETS = rows_of("text importance")


def sentence_row(
    text: str,
    evidence_ids: Sequence[str],
    *,
    part: str = "answer",
    places: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """One of SENTENCES."""
    ids = list(evidence_ids)
    return {"text": text, "part": part, "evidence_ids": ids, "places": list(places)}


def empty_value(kind: pa.DataType) -> object:
    """Return the empty value of a column type: "", 0, [] or a struct of them."""
    if pa.types.is_struct(kind):
        return {field.name: empty_value(field.type) for field in kind}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return []
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return b""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return ""
    if pa.types.is_boolean(kind):
        return False
    return 0


def empty_column(field: pa.Field) -> object:
    """Return the empty value of a column; no choice is NO_CHOICE, not the first option."""
    return NO_CHOICE if field.name == CHOICE.name else empty_value(field.type)


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the table with exactly the schema's columns, order and types.

    Raises ValueError that names the column if one is missing or cannot be cast.
    """
    if table.schema.equals(schema, check_metadata=False) and not any(
        column.null_count
        for field, column in zip(schema, table.columns, strict=True)
        if not field.nullable
    ):
        return table
    held = set(table.column_names)
    missing = [name for name in schema.names if name not in held]
    if missing:
        raise ValueError(f"column {missing[0]!r} is missing; the table has {table.column_names}")
    columns = []
    for field in schema:
        column = table.column(field.name)
        if column.type != field.type:
            try:
                column = column.cast(field.type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise ValueError(f"column {field.name!r}: {error}") from error
        if not field.nullable and column.null_count:
            raise ValueError(f"column {field.name!r} holds nulls")
        columns.append(column)
    return pa.table(columns, schema=schema)
