"""Every text with which the packages may speak to a user, read from the syntax trees of the source.

A text is a template: `…` stands for what is only known when it is built. Two kinds are told apart.
What a call of a known function says is put into the form of the whole message (`FORMS`). Any other
text of two words or more is returned as it stands in the source, so that nothing is missed.
"""

from __future__ import annotations

import ast
import itertools
import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

ROOT: Final = Path(__file__).parents[2]
SCRIPT: Final = Path(__file__).with_name("typescript_ast.mjs")
GAP: Final = "…"
MOST_TEMPLATES: Final = 24

# What a call says: `{0}` is its first argument.
FORMS: Final = {
    "RequestError": "Cannot build {0}: {1} is {2}, expected {3}",
    "RequestTypeError": "Cannot build {0}: {1} is {2}, expected {3}",
    "_type_error": "Cannot build …: {1} is …, expected {3}",
    "ConfigError": "Cannot configure {0}: {1} is {2}, expected {3}",
    "ConfigTypeError": "Cannot configure {0}: {1} is {2}, expected {3}",
    "refuse": "Cannot configure …: {0} is …, expected {2}",
    "BindingNameError": "Cannot declare bindings: {0} is …, expected {2}",
    "HostStartError": "Cannot start {0}: {1}, expected {2}",
    "ContextStateError": "Cannot {0}: {1}, expected {2}",
    "PluginTypeError": "Cannot load plugin: {0}, expected {1}",
    "GuardError": "Cannot {0}: {1}, expected {2}",
    "ToolDefinitionError": "Cannot define {0}: {1} is {2}, expected {3}",
    "McpConfigError": "Cannot use the MCP config: {0} is {1}, expected {2}",
}
NODE_FORMS: Final = {
    "ConfigError": "Cannot configure PythonCodeRuntime: {0} is {1}, expected {2}",
    "BindingNameError": "Cannot declare bindings: {0} is …, expected {2}",
    "RequestError": "Cannot run a program: {0} is {1}, expected {2}",
}

# These files say much that is no message: help, labels, states, and the texts for a model.
ONLY_REFUSALS: Final = r"/_cli/|/_report/|/inspect\.py|^code-mode/"

Node: TypeAlias = "Text | Join | Either | Name | Call | Scope | Other"
Names: TypeAlias = "dict[str, list[Node]]"


@dataclass(eq=False)
class Text:
    """A literal text."""

    text: str


@dataclass(eq=False)
class Join:
    """Parts one after another, such as those of an f-string."""

    parts: list[Node]


@dataclass(eq=False)
class Either:
    """One of two expressions."""

    options: list[Node]


@dataclass(eq=False)
class Name:
    """A variable or constant."""

    name: str


@dataclass(eq=False)
class Call:
    """A call of a function by its last name."""

    callee: str
    arguments: list[Node]


@dataclass(eq=False)
class Scope:
    """A function or a file, and what is assigned to each name of its own."""

    names: Names = field(default_factory=lambda: defaultdict(list))
    parts: list[Node] = field(default_factory=list)


@dataclass(eq=False)
class Other:
    """Anything else; only its parts are of interest."""

    parts: list[Node]


@dataclass
class Source:
    """One file."""

    path: Path
    tree: Scope


def _from_python(node: ast.AST, names: Names) -> Node:
    def read(inner: ast.AST) -> Node:
        return _from_python(inner, names)

    match node:
        case ast.Expr(value=ast.Constant()):
            return Other([])  # a docstring
        case ast.Constant(value=str() as text):
            return Text(text)
        case ast.JoinedStr():
            return Join([read(value) for value in node.values])
        case ast.FormattedValue():
            return read(node.value)
        case ast.BinOp(op=ast.Add()):
            return Join([read(node.left), read(node.right)])
        case ast.IfExp():
            return Either([read(node.body), read(node.orelse)])
        case ast.BoolOp(op=ast.Or()):
            return Either([read(value) for value in node.values])
        case ast.Name():
            return Name(node.id)
        case ast.Call():
            callee = node.func
            last = callee.attr if isinstance(callee, ast.Attribute) else getattr(callee, "id", "")
            arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
            return Call(last, [read(argument) for argument in arguments])
        case ast.AnnAssign(target=ast.Name() as target, value=ast.expr() as value):
            names[target.id].append(found := read(value))
            return Other([found])
        case ast.AnnAssign() | ast.arg():
            return Other([])  # annotations are no texts
        case ast.Assign(targets=[ast.Name() as target]):
            names[target.id].append(found := read(node.value))
            return Other([found])
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
            pairs = [(target, read(value)) for target, value in zip(targets, values, strict=False)]
            for one, found in pairs:
                if isinstance(one, ast.Name):
                    names[one.id].append(found)
            return Other([found for _, found in pairs])
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            inside = Scope()
            inside.parts = [_from_python(child, inside.names) for child in node.body]
            return Other([*map(read, node.args.defaults), inside])
    return Other([read(child) for child in ast.iter_child_nodes(node)])


def _from_typescript(node: Any, names: Names) -> Node:
    def read(inner: Any) -> Node:
        return _from_typescript(inner, names)

    if isinstance(node, list):
        return Other([read(item) for item in node])
    if not isinstance(node, dict):
        return Other([])
    match node.get("type"):
        case "FunctionDeclaration" | "FunctionExpression" | "ArrowFunctionExpression":
            scope = Scope()
            scope.parts = [_from_typescript(node["body"], scope.names)]
            return Other([*map(read, node["params"]), scope])
        case "ImportDeclaration" | "TSTypeAliasDeclaration" | "TSInterfaceDeclaration":
            return Other([])
        case "Literal":
            return Text(node["value"]) if isinstance(node["value"], str) else Other([])
        case "TemplateLiteral":
            texts = [Text(quasi["value"]["cooked"] or "") for quasi in node["quasis"]]
            holes = [*map(read, node["expressions"]), Text("")]
            return Join([part for pair in zip(texts, holes, strict=True) for part in pair])
        case "BinaryExpression" if node["operator"] == "+":
            return Join([read(node["left"]), read(node["right"])])
        case "ConditionalExpression":
            return Either([read(node["consequent"]), read(node["alternate"])])
        case "LogicalExpression" if node["operator"] in ("??", "||"):
            return Either([read(node["left"]), read(node["right"])])
        case "Identifier":
            return Name(node["name"])
        case "CallExpression" | "NewExpression":
            callee = node["callee"]
            last = callee.get("property", callee).get("name", "")
            return Call(last, [*map(read, node["arguments"]), *_parts_of(callee, read)])
        case "VariableDeclarator" if node["init"] and node["id"]["type"] == "Identifier":
            names[node["id"]["name"]].append(found := read(node["init"]))
            return Other([found])
        case "AssignmentExpression" if node["left"]["type"] == "Identifier":
            names[node["left"]["name"]].append(found := read(node["right"]))
            return Other([found])
    return Other(_parts_of(node, read))


def _parts_of(node: dict[str, Any], read: Any) -> list[Node]:
    skipped = ("typeAnnotation", "returnType", "typeParameters", "typeArguments")
    return [
        read(value)
        for key, value in node.items()
        if key not in skipped and isinstance(value, dict | list)
    ]


@cache
def python_sources() -> tuple[Source, ...]:
    """Return the Python files of the packages but the conformance suite, whose texts are tests'."""
    found = []
    for path in sorted(ROOT.glob("packages/*/src/**/*.py")):
        if "testing" not in path.parts:
            scope = Scope()
            scope.parts = [_from_python(ast.parse(path.read_text("utf-8")), scope.names)]
            found.append(Source(path, scope))
    return tuple(found)


@cache
def typescript_sources() -> tuple[Source, ...]:
    """Return the TypeScript files of the worker-thread provider, and of the host for Node."""
    folders = ("code-runtime-worker-thread/host/src", "code-runtime-python/node/src")
    paths = [path for name in folders for path in sorted((ROOT / "packages" / name).glob("*.ts"))]
    done = subprocess.run(
        ["node", SCRIPT, *paths], stdout=subprocess.PIPE, cwd=ROOT, check=True, encoding="utf-8"
    )
    found = []
    for path, tree in zip(paths, json.loads(done.stdout), strict=True):
        scope = Scope()
        scope.parts = [_from_typescript(tree, scope.names)]
        found.append(Source(path, scope))
    return tuple(found)


class Reader:
    """Reads the templates of one file; names of other files count when they are constants."""

    def __init__(self, source: Source, constants: Names) -> None:
        self._constants = constants
        self._walked = list(_walk(source.tree, ()))
        self.used: set[int] = set()

    def messages(self, forms: dict[str, str]) -> list[str]:
        """Return what the calls of known functions say."""
        found = []
        for call, scopes in self._walked:
            form = forms.get(call.callee) if isinstance(call, Call) else None
            if form is None or not isinstance(call, Call):
                continue
            wanted = sorted({int(index) for index in re.findall(r"\{(\d)\}", form)})
            if len(call.arguments) <= wanted[-1]:
                continue
            several = [self._templates(call.arguments[index], scopes) for index in wanted]
            for texts in itertools.product(*several):
                values: dict[int, str] = dict(zip(wanted, texts, strict=True))
                found.append(form.format(*(values.get(index, GAP) for index in range(10))))
        return found

    def loose(self, used: set[int]) -> list[str]:
        """Return the texts of two words or more that no known function and no other text says."""
        texts = []
        for node, scopes in self._walked:
            if isinstance(node, Text | Join) and id(node) not in used:
                texts.append((node, self._templates(node, scopes, top=True)))
        return [
            text
            for node, several in texts
            if id(node) not in self.used
            for text in several
            if re.search(r"\w[^ ]* +[^ ]*\w", text)
        ]

    def _templates(
        self, node: Node, scopes: tuple[Scope, ...], depth: int = 0, *, top: bool = False
    ) -> list[str]:
        """Return the texts that an expression may give."""
        if depth > 6:
            return [GAP]
        if not top:
            self.used.add(id(node))
        match node:
            case Text():
                return [node.text]
            case Join():
                several = [self._templates(part, scopes, depth + 1) for part in node.parts]
                texts = ("".join(parts) for parts in itertools.product(*several))
                return list(itertools.islice(texts, MOST_TEMPLATES))
            case Either():
                return [t for one in node.options for t in self._templates(one, scopes, depth + 1)]
            case Name():
                found = self._assigned(node.name, scopes)
                known = [one for one in found if isinstance(one, Text | Join | Either)]
                texts_of = (self._templates(one, scopes, depth + 1) for one in known)
                # What starts as an empty text is set later.
                spoken = [text or GAP for texts in texts_of for text in texts]
                return spoken if spoken and len(known) == len(found) else [*spoken, GAP]
        return [GAP]

    def _assigned(self, name: str, scopes: tuple[Scope, ...]) -> list[Node]:
        for scope in reversed(scopes):
            if name in scope.names:
                return scope.names[name]
        return self._constants.get(name, [])


def _walk(node: Node, scopes: tuple[Scope, ...]) -> Iterator[tuple[Node, tuple[Scope, ...]]]:
    """Give every node but the parts of texts, with the scopes around it."""
    yield node, scopes
    if isinstance(node, Scope):
        scopes = (*scopes, node)
    for part in _inside(node):
        yield from _walk(part, scopes)


def _inside(node: Node) -> list[Node]:
    match node:
        case Join() | Other() | Scope():
            return node.parts
        case Either():
            return node.options
        case Call():
            return node.arguments
    return []


def tidy(text: str) -> str:
    """Write neighbouring gaps as one, holes of `str.format` as gaps, and line ends as blanks."""
    return re.sub(rf"(?:{GAP}|\{{name\}})+", GAP, " ".join(text.split()))


def is_refusal(text: str) -> bool:
    """Whether a text says that something cannot be done, or was not."""
    return re.match(r"Cannot |Unknown |MCP server |Left out |Kept the |No news ", text) is not None


@dataclass(frozen=True)
class Message:
    """A template, and where it stands."""

    text: str
    path: str
    kind: str


def _constants(source: Source, sources: tuple[Source, ...]) -> Names:
    """Return the constants that a file may import: those of its package before those of others."""
    found: Names = {}
    package = source.path.relative_to(ROOT).parts[1]
    for is_own in (False, True):
        for other in sources:
            if (other.path.relative_to(ROOT).parts[1] == package) is is_own:
                found |= {n: nodes for n, nodes in other.tree.names.items() if n.isupper()}
    return found


@cache
def source_messages() -> tuple[Message, ...]:
    """Return every message of the packages."""
    found: dict[str, Message] = {}
    for sources, forms in ((python_sources(), FORMS), (typescript_sources(), NODE_FORMS)):
        readers = {source.path: Reader(source, _constants(source, sources)) for source in sources}
        said = {path: reader.messages(forms) for path, reader in readers.items()}
        used = {one for reader in readers.values() for one in reader.used}
        loose = {path: reader.loose(used) for path, reader in readers.items()}
        for kind, texts_of in (("form", said), ("loose", loose)):
            for path, texts in texts_of.items():
                place = str(path.relative_to(ROOT / "packages"))
                for text in map(tidy, texts):
                    if kind == "form" or not re.search(ONLY_REFUSALS, place) or is_refusal(text):
                        found.setdefault(text, Message(text, place, kind))
    return tuple(found.values())
