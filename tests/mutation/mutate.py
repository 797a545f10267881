"""Mutants of a module: one small change in the body of one function each."""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE,
    ast.GtE: ast.Gt, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_REVERSED: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Lt: ast.Gt, ast.Gt: ast.Lt}
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.Mod: ast.Add,
    ast.FloorDiv: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.Pow: ast.Mult,
    ast.MatMult: ast.Add, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
_CALLED = {
    "all": "any", "any": "all", "min": "max", "max": "min", "sorted": "list", "isdisjoint":
    "issubset", "issuperset": "isdisjoint", "argmax": "argmin", "argmin": "argmax",
    "maximum": "minimum", "minimum": "maximum", "sum": "max",
}  # fmt: skip

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Mutant:
    """A changed function: its qualified name, the line, the text before and after, its code."""

    function: str
    line: int
    before: str
    after: str
    code: CodeType

    @property
    def name(self) -> str:
        """The mutant without its line, which other changes of the module move."""
        return f"{self.function}: {self.before} -> {self.after}"


def mutants(source: str, file: str, most: int, seed: int = 0) -> list[Mutant]:
    """Draw at most so many mutants of a module's functions, in the order of its lines."""
    tree = ast.parse(source)
    found = []
    for name, function in functions(tree):
        nodes = list(_changeable(function))
        for place, node in enumerate(nodes):
            for number in range(len(list(_changes(node)))):
                found.append((name, place, number))
    drawn = sorted(random.Random(seed).sample(found, min(most, len(found))))
    return sorted((_made(tree, file, *each) for each in drawn), key=lambda each: each.line)


def functions(tree: ast.Module) -> Iterator[tuple[str, Function]]:
    """Each function of the module and method of its classes, by qualified name."""
    for node in tree.body:
        if isinstance(node, Function):
            yield node.name, node
        if isinstance(node, ast.ClassDef):
            for each in node.body:
                if isinstance(each, Function):
                    yield f"{node.name}.{each.name}", each


def _changeable(function: Function) -> Iterator[ast.AST]:
    """The nodes of a body, without annotations, texts for people, and what checks invariants."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop(0)
        yield node
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "args") and not isinstance(
                node, ast.Call
            ):
                continue
            if isinstance(node, ast.Assert | ast.JoinedStr | ast.Raise):
                continue
            children = value if isinstance(value, list) else [value]
            waiting += [each for each in children if isinstance(each, ast.AST)]


def _changes(node: ast.AST) -> Iterator[ast.AST]:
    """What a node may become; the changed copy of a statement or of an expression."""
    new = copy.deepcopy(node)
    if isinstance(new, ast.Compare):
        for operators in (_COMPARED, _REVERSED):
            if (kind := operators.get(type(new.ops[0]))) is not None:
                other = copy.deepcopy(new)
                other.ops[0] = kind()
                yield other
    elif isinstance(new, ast.BoolOp):
        new.op = ast.Or() if isinstance(new.op, ast.And) else ast.And()
        yield new
        for number in range(len(new.values)):
            other = copy.deepcopy(new)
            other.op = ast.And() if isinstance(new.op, ast.Or) else ast.Or()
            del other.values[number]
            yield other.values[0] if len(other.values) == 1 else other
    elif isinstance(new, ast.BinOp | ast.AugAssign) and type(new.op) in _COMPUTED:
        new.op = _COMPUTED[type(new.op)]()
        yield new
    elif isinstance(new, ast.UnaryOp) and isinstance(new.op, ast.Not | ast.USub | ast.Invert):
        yield new.operand
    elif isinstance(new, ast.Constant) and isinstance(new.value, bool | int | float):
        new.value = (not new.value) if isinstance(new.value, bool) else new.value + 1
        yield new
    elif isinstance(new, ast.Call):
        if isinstance(new.func, ast.Name) and new.func.id in _CALLED:
            new.func.id = _CALLED[new.func.id]
            yield new
        elif isinstance(new.func, ast.Attribute) and new.func.attr in _CALLED:
            new.func.attr = _CALLED[new.func.attr]
            yield new
    elif isinstance(new, ast.If | ast.While | ast.IfExp):
        new.test = ast.UnaryOp(ast.Not(), new.test)
        yield new
    elif isinstance(new, ast.Return) and not _is_none(new.value):
        new.value = None
        yield new
    elif isinstance(new, ast.Continue):
        yield ast.Break()
    elif isinstance(new, ast.Expr) and isinstance(new.value, ast.Call | ast.Await):
        yield ast.Pass()


def _is_none(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)


def _made(tree: ast.Module, file: str, name: str, place: int, number: int) -> Mutant:
    """Compile the module with one change, and take the code of the function out of it."""
    changed = copy.deepcopy(tree)
    function = dict(functions(changed))[name]
    node = list(_changeable(function))[place]
    new = list(_changes(node))[number]
    before, after = _short(node), _short(new)
    _Replace(node, new).visit(function)
    code = compile(ast.fix_missing_locations(changed), file, "exec")
    for part in name.split("."):
        code = _last(code, part)
    return Mutant(name, getattr(node, "lineno", function.lineno), before, after, code)


def _last(code: CodeType, name: str) -> CodeType:
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    return next(each for each in reversed(inner) if each.co_name == name)


def _short(node: ast.AST) -> str:
    """The first line of what a node stands for."""
    return ast.unparse(ast.fix_missing_locations(node)).partition("\n")[0][:100]


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        if node is self.old:
            return ast.copy_location(self.new, node)
        self.generic_visit(node)
        return node
