"""Train an encoder on questions with gold passages; any number of workers share each step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from srrag.lab.train.encoder.task import EncoderTask, GoldMaterial, read_material, task_of
from srrag.lab.train.group import Alone, Group
from srrag.lab.train.loop import Checkpoints, Training
from srrag.model.encoder import COLBERT, Encoder, Role, check_model, load_tokenizer
from srrag.model.network import pooling_mode
from srrag.model.read_weights import encoder_folder, load_trainable

PASSAGE: Role = "passage"
QUERY: Role = "query"
_TOGETHER = 8
"""Number of texts padded to one length."""


class Vectors(NamedTuple):
    """Vectors of unit length of n texts; `tokens` is 0 where `content` is False."""

    pooled: Tensor  # (n, dim)
    tokens: Tensor  # (n, L, dim)
    content: Tensor  # bool (n, L)


class Towers:
    """The models of an encoder (one, or one for each role), its tokenizer and its pooling."""

    def __init__(self, base: Encoder, max_tokens: int, device: str) -> None:
        """Load in float32; raises ValueError for a model that cannot be trained."""
        self.base, self.device = base, device
        self.folders = tower_folders(base)
        self.pooling = trained_pooling(base, self.folders[PASSAGE])
        self.module = nn.ModuleDict()
        for role, folder in self.folders.items():
            model = load_trainable(folder, base.model, "embedder.model", max_tokens)
            self.module[role] = model
            self.dim = int(model.config.hidden_size)
        self.module.to(device).eval()  # no dropout: one result on any number of workers
        self.tokenizer = load_tokenizer(base)
        self.max_tokens = max_tokens

    def ids(self, texts: Sequence[str], role: Role) -> list[np.ndarray]:
        """Token ids, cut at `max_tokens` (the end token stays)."""
        prefix = self.base.query_prefix if role == QUERY else self.base.passage_prefix
        found = self.tokenizer.tokenise([prefix + text for text in texts]).ids
        return [
            np.append(each[: self.max_tokens - 1], each[-1])
            if len(each) > self.max_tokens
            else each
            for each in found
        ]

    def vectors(self, ids: Sequence[np.ndarray], role: Role, length: int) -> Vectors:
        """Vectors of texts, their tokens padded to `length`; texts of like length go together."""
        order = np.argsort([len(each) for each in ids], kind="stable")
        parts = [order[i : i + _TOGETHER] for i in range(0, len(order), _TOGETHER)]
        found = [self._vectors([ids[i] for i in part], role, length) for part in parts]
        back = torch.from_numpy(np.argsort(order)).to(self.device)
        return Vectors(*(torch.cat(each)[back] for each in zip(*found, strict=True)))

    def _vectors(self, ids: Sequence[np.ndarray], role: Role, length: int) -> Vectors:
        longest = max(len(each) for each in ids)
        padded = np.zeros((len(ids), longest), np.int64)
        mask = np.zeros((len(ids), longest), np.int64)
        for row, each in enumerate(ids):
            padded[row, : len(each)], mask[row, : len(each)] = each, 1
        content = torch.from_numpy(self.tokenizer.is_content(padded) & (mask > 0)).to(self.device)
        given, seen = (torch.from_numpy(part).to(self.device) for part in (padded, mask))
        model = self.module[role if role in self.module else PASSAGE]
        hidden = model(input_ids=given, attention_mask=seen).last_hidden_state
        if self.pooling == "cls":
            pooled = hidden[:, 0]
        else:
            weight = seen.to(hidden.dtype).unsqueeze(2)
            pooled = (hidden * weight).sum(1) / weight.sum(1)
        tokens = F.normalize(hidden, dim=2) * content.unsqueeze(2)
        more = length - longest
        return Vectors(
            F.normalize(pooled, dim=1), F.pad(tokens, (0, 0, 0, more)), F.pad(content, (0, more))
        )

    def weights(self, trained: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
        """The whole weights of each tower, the `trained` ones in the place of its own."""
        found: dict[str, dict[str, Tensor]] = {}
        for role, model in self.module.items():
            whole = dict(model.state_dict())
            new = {n.removeprefix(f"{role}."): t for n, t in trained.items() if n.startswith(role)}
            assert new.keys() <= whole.keys()
            found[role] = {n: t.cpu().contiguous() for n, t in (whole | new).items()}
        return found


def tower_folders(base: Encoder) -> dict[str, Path]:
    """The folder of the passages' model, and that of the queries' if it is another.

    Raises ValueError that names the key of the one that cannot be read.
    """
    check_model(base.model, base.revision)
    folders: dict[str, Path] = {
        PASSAGE: encoder_folder(base.model, base.revision, "embedder.model")
    }
    if base.query_model:
        key = "embedder.query_model"
        check_model(base.query_model, base.query_revision)
        folders[QUERY] = encoder_folder(base.query_model, base.query_revision, key)
    return folders


def trained_pooling(base: Encoder, folder: Path) -> str:
    """How the encoder pools, `mean` or `cls`; raises ValueError for a kind that is not trained."""
    if base.backend == COLBERT:
        raise ValueError(
            "embedder.backend=colbert: a model without a vector for the whole text is not trained"
        )
    mode = pooling_mode(folder, base.pooling)
    if mode is None:
        raise ValueError(
            f"embedder.model={base.model}: it does not say that it pools by cls or mean; "
            "embedder.pooling= says it"
        )
    return mode


def contrastive_loss(
    queries: Vectors,
    passages: Vectors,
    target: Tensor,
    excluded: Tensor,
    *,
    temperature: float,
    late: float,
) -> Tensor:
    """Mean over questions of (1 − late) · CE(cosines / t) + late · CE(MaxSim / t).

    `target` (questions,) is the column of each question's gold passage, `excluded` bool (questions,
    passages) its other gold, which is no negative. InfoNCE (arXiv 1807.03748) with in-batch and
    mined negatives; MaxSim as in ColBERT (Eq. 15 of sr-rag), a mean over the question's tokens.
    """
    total = queries.pooled.new_zeros(())
    parts = ((1 - late, cosines), (late, mean_maxsim))
    for share, similarity in parts:
        if share:
            logits = similarity(queries, passages) / temperature
            logits = logits.masked_fill(excluded, -torch.inf)
            total = total + share * F.cross_entropy(logits, target)
    return total


def cosines(queries: Vectors, passages: Vectors) -> Tensor:
    """The cosine of each question's pooled vector with each passage's: (questions, passages)."""
    return queries.pooled @ passages.pooled.T


def mean_maxsim(queries: Vectors, passages: Vectors) -> Tensor:
    """The mean over a question's tokens of the best cosine with a token of each passage.

    Returns (questions, passages); a text without content tokens has 0.
    """
    number, length = passages.content.shape
    flat = queries.tokens.flatten(0, 1) @ passages.tokens.flatten(0, 1).T
    every = flat.view(*queries.content.shape, number, length)
    best = every.masked_fill(~passages.content, -torch.inf).amax(3)
    best = best.masked_fill(~queries.content.unsqueeze(2), 0.0)
    best = best.masked_fill(~passages.content.any(1), 0.0)
    return best.sum(1) / queries.content.sum(1, keepdim=True).clamp(min=1)


class Batch(NamedTuple):
    """The questions of a step, its passages, the gold column of each, and its other gold."""

    questions: list[int]
    passages: list[int]
    target: list[int]
    excluded: npt.NDArray[np.bool_]


def run_plain(plain: dict[str, Any], group: Group | None = None) -> dict[str, Any]:
    """Train from and to JSON, for workers elsewhere.

    The result names the file of the weights and holds the curve by checkpoint. Raises ValueError
    if the file of questions has changed.
    """
    task = task_of(plain)
    material = read_material(Path(task.material), task.fingerprint)
    return EncoderTraining(task, group or Alone(), material).run()


class EncoderTraining(Training):
    """The state of one training on one worker."""

    task: EncoderTask

    def __init__(self, task: EncoderTask, group: Group, material: GoldMaterial) -> None:
        """Load the encoder and tokenise all texts."""
        self.task, self.settings, self.material = task, task.settings, material
        self.towers = Towers(task.base, self.settings.max_tokens, task.device)
        self.questions = self.towers.ids(material.questions, QUERY)
        self.passages = self.towers.ids(material.passages, PASSAGE)
        self.plan = [
            rows for epoch in range(self.settings.epochs) for rows in self._epoch_plan(epoch)
        ]
        named = self.towers.module.named_parameters()
        weights = {name: p for name, p in named if p.requires_grad}
        optimizer = torch.optim.AdamW(
            weights.values(),
            lr=self.settings.learning_rate,
            weight_decay=self.settings.weight_decay,
        )
        legs = math.ceil(len(self.plan) / self.settings.checkpoint_steps)
        super().__init__(
            task, group, weights, optimizer, Checkpoints(Path(task.state), legs, "part")
        )
        self.steps = len(self.plan)
        self.more = {"steps": self.steps}

    def leg(self) -> dict[str, float]:
        """Train so many steps as there are between two checkpoints."""
        every = self.settings.checkpoint_steps
        steps = range(self.done * every, min((self.done + 1) * every, self.steps))
        losses = [self._step(number) for number in steps]
        return {"step": float(steps[-1] + 1), "train_loss": float(np.mean(losses))}

    def _epoch_plan(self, epoch: int) -> list[npt.NDArray[np.int64]]:
        """The questions of each step of an epoch, the same on every worker; no step has one."""
        order = np.random.default_rng([self.task.seed, epoch]).permutation(len(self.questions))
        size = self.settings.batch
        found = [order[i : i + size] for i in range(0, len(order), size)]
        return [rows for rows in found if len(rows) > 1]

    def batch(self, step: int) -> Batch:
        """Draw a gold passage and negatives for each question of a step."""
        rng = np.random.default_rng([self.task.seed, step, 1])
        rows = self.plan[step].tolist()
        given = self.material
        gold = [int(rng.choice(given.best[row])) for row in rows]
        drawn = [
            int(place)
            for row in rows
            for place in rng.permutation(given.mined[row])[: self.settings.negatives]
        ]
        passages = list(dict.fromkeys([*gold, *drawn]))
        column = {place: number for number, place in enumerate(passages)}
        excluded = np.zeros((len(rows), len(passages)), bool)
        for number, (row, own) in enumerate(zip(rows, gold, strict=True)):
            others = [column[p] for p in given.gold[row] if p in column and p != own]
            excluded[number, others] = True
        return Batch(rows, passages, [column[place] for place in gold], excluded)

    def _step(self, number: int) -> float:
        """Encode this worker's share, take the loss of the whole batch, and move the weights.

        Vectors are added over the workers, so each has the whole batch as negatives; each passes
        the loss's gradients back through the vectors that it made.
        """
        batch = self.batch(number)
        queries = self._shared([self.questions[row] for row in batch.questions], QUERY)
        passages = self._shared([self.passages[row] for row in batch.passages], PASSAGE)
        loss = contrastive_loss(
            queries.whole,
            passages.whole,
            torch.tensor(batch.target, device=self.task.device),
            torch.from_numpy(batch.excluded).to(self.task.device),
            temperature=self.settings.temperature,
            late=self.settings.late,
        )
        loss.backward()  # type: ignore[no-untyped-call]
        for each in (queries, passages):
            each.pass_back()
        self.fill_gradients()  # of a tower that had no text here
        self.move(number)
        return float(loss.detach())

    def _shared(self, ids: Sequence[npt.NDArray[np.int64]], role: Role) -> SharedVectors:
        """The vectors of all texts, of which this worker makes its share."""
        rank, size = self.group.rank, self.group.size
        length = max(len(each) for each in ids)
        mine = slice(rank, None, size)
        own = self.towers.vectors(ids[mine], role, length) if ids[mine] else None
        return SharedVectors(own, mine, (len(ids), length), self.group)


class SharedVectors:
    """The vectors of a batch as leaves of its loss, and those of them that this worker made."""

    def __init__(
        self, own: Vectors | None, mine: slice, shape: tuple[int, int], group: Group
    ) -> None:
        """Gather the vectors of all workers, who call it together."""
        self.own, self.mine = own, mine
        if own is not None and group.size == 1:
            pooled, tokens, content = (part.detach() for part in own)
        else:
            pooled, tokens, content = _gathered(own, mine, shape, group)
        self.whole = Vectors(pooled.requires_grad_(), tokens.requires_grad_(), content)

    def pass_back(self) -> None:
        """Pass the loss's gradients back through the vectors that this worker made."""
        if self.own is None:
            return
        made = [(self.own.pooled, self.whole.pooled), (self.own.tokens, self.whole.tokens)]
        felt = [(own, whole.grad[self.mine]) for own, whole in made if whole.grad is not None]
        torch.autograd.backward([own for own, _ in felt], [grad for _, grad in felt])


def _gathered(
    own: Vectors | None, mine: slice, shape: tuple[int, int], group: Group
) -> tuple[Tensor, Tensor, Tensor]:
    """Add up the shares of all workers; a worker without a text adds nothing."""
    width = 0 if own is None else own.pooled.shape[1]
    widths, makers = group.total(np.array([width, own is not None], np.float64)).tolist()
    dimension, (number, length) = int(widths / makers), shape
    flat = np.zeros((number, dimension + length * (dimension + 1)))
    if own is not None:
        parts = (own.pooled, own.tokens.flatten(1), own.content.to(own.pooled.dtype))
        flat[mine] = torch.cat([part.detach().cpu() for part in parts], 1).double().numpy()
    summed = torch.from_numpy(group.total(flat)).float()
    device = "cpu" if own is None else own.pooled.device
    pooled, tokens, content = torch.split(
        summed.to(device), [dimension, length * dimension, length], 1
    )
    return pooled.contiguous(), tokens.reshape(number, length, dimension), content > 0.5
