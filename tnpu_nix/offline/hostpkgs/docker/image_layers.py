"""Decide which store paths form which layer of an image: closure → image configuration.

The layering pipeline is nixpkgs' `layeringPipeline`: a list of [operation, argument...],
each of which turns a graph of store paths, a list of graphs or a dict of graphs into
another. Of nixpkgs' operations (flatten-references-graph) those that nix/image.nix uses are here.
"""

from __future__ import annotations

import json
import sys
import tarfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

Value = Any  # a Graph, or lists and dicts of such: what flows through a pipeline
Step = Callable[[Value], Value]


class PipelineError(Exception):
    """The layering pipeline asks for something that does not exist."""


@dataclass(frozen=True)
class Graph:
    """Store paths with the references among them, without references to themselves."""

    edges: dict[str, list[str]] = field(default_factory=dict)

    def restricted(self, keep: Iterable[str]) -> Graph:
        """The part of the graph with the paths of `keep` alone, in the graph's order."""
        kept = set(keep)
        return Graph(
            {
                path: [r for r in refs if r in kept]
                for path, refs in self.edges.items()
                if path in kept
            }
        )

    def reversed(self) -> Graph:
        """The graph with each reference turned round."""
        edges: dict[str, list[str]] = {path: [] for path in self.edges}
        for path, refs in self.edges.items():
            for ref in refs:
                edges[ref].append(path)
        return Graph(edges)

    def reachable(self, roots: Iterable[str]) -> set[str]:
        """Paths that can be reached from `roots`, these included."""
        seen: set[str] = set()
        todo = [root for root in roots if root in self.edges]
        while todo:
            path = todo.pop()
            if path not in seen:
                seen.add(path)
                todo.extend(self.edges[path])
        return seen


def graph_of(closure: list[dict[str, Any]]) -> Graph:
    """The graph of a closure as Nix exports it, smallest paths first."""
    nodes = sorted(closure, key=lambda node: (node["narSize"], node["path"]))
    return Graph({n["path"]: sorted(r for r in n["references"] if r != n["path"]) for n in nodes})


def popularity_contest(graph: Graph) -> list[Graph]:
    """One graph per path, most popular first.

    A path counts once for every way to it from a root, plus the length of that way: what
    many things build on comes first and is shared between images. Equal ones go by name.
    """
    ways = dict.fromkeys(graph.edges, 0)
    score = dict.fromkeys(graph.edges, 0)
    referrers = graph.reversed().edges
    # Each path after all that refer to it.
    for path in TopologicalSorter(referrers).static_order():
        if not referrers[path]:
            ways[path], score[path] = 1, 1
        for ref in graph.edges[path]:
            ways[ref] += ways[path]
            score[ref] += score[path] + ways[path]

    def rank(path: str) -> tuple[int, str]:
        digest, _, name = path.partition("-")
        return score[path], f"{name}-{digest}"

    return [graph.restricted([path]) for path in sorted(graph.edges, key=rank, reverse=True)]


def subcomponent_in(paths: list[str]) -> Step:
    """Split off `paths` and what needs them: {main, rest}."""

    def run(graph: Graph) -> dict[str, Graph]:
        main = graph.reversed().reachable(paths)
        return {
            "main": graph.restricted(main),
            "rest": graph.restricted(graph.edges.keys() - main),
        }

    return run


def flatten(value: Value) -> list[Graph]:
    """All graphs in nested lists and dicts, in order."""
    if isinstance(value, Graph):
        return [value]
    parts = value.values() if isinstance(value, dict) else value
    return [graph for part in parts for graph in flatten(part)]


def limit_layers(count: int) -> Step:
    """Keep the first `count` - 1 graphs and merge all others into the last one."""
    if count < 1:
        raise PipelineError(f"limit_layers: {count} is not a number of layers")

    def run(value: Value) -> list[Graph]:
        graphs = flatten(value)
        merged: dict[str, list[str]] = {}
        for graph in graphs[count - 1 :]:
            merged.update(graph.edges)
        return [*graphs[: count - 1], Graph(merged)]

    return run


def split_every(count: int) -> Step:
    """Split a graph into graphs of `count` paths each, in its order."""

    def run(graph: Graph) -> list[Graph]:
        paths = list(graph.edges)
        return [graph.restricted(paths[i : i + count]) for i in range(0, len(paths), count)]

    return run


def over(key: str, operation: list[Any]) -> Step:
    """Apply an operation to one entry of a dict."""
    step = step_of(operation)

    def run(value: dict[str, Value]) -> dict[str, Value]:
        if key not in value:
            raise PipelineError(f"over: there is no '{key}' here, only {', '.join(value)}")
        return {**value, key: step(value[key])}

    return run


def each(operation: list[Any]) -> Step:
    """Apply an operation to every element of a list."""
    step = step_of(operation)
    return lambda values: [step(value) for value in values]


def pipe(pipeline: list[list[Any]]) -> Step:
    """Apply operations one after the other."""
    steps = [step_of(operation) for operation in pipeline]

    def run(value: Value) -> Value:
        for step in steps:
            value = step(value)
        return value

    return run


OPERATIONS: dict[str, Callable[..., Step]] = {
    "flatten": lambda: flatten,
    "limit_layers": limit_layers,
    "map": each,
    "over": over,
    "pipe": pipe,
    "popularity_contest": lambda: popularity_contest,
    "reverse": lambda: lambda value: list(value)[::-1],
    "split_every": split_every,
    "subcomponent_in": subcomponent_in,
}


def step_of(operation: list[Any]) -> Step:
    """The function that a pipeline's [operation, argument...] stands for."""
    name, *arguments = operation
    if name not in OPERATIONS:
        raise PipelineError(f"unknown operation '{name}'; known: {', '.join(OPERATIONS)}")
    try:
        return OPERATIONS[name](*arguments)
    except TypeError as error:
        raise PipelineError(f"{name}: wrong arguments {arguments}") from error


def base_layer_count(settings: dict[str, Any]) -> int:
    """How many layers the base image has, 0 without one."""
    if settings["from_image"] is None:
        return 0
    with tarfile.open(settings["from_image"]) as archive:
        if "manifest.json" not in archive.getnames():
            raise PipelineError(f"fromImage {settings['from_image']} is not a docker-archive")
        manifest = archive.extractfile("manifest.json")
        assert manifest is not None
        return len(json.load(manifest)[0]["Layers"])


def default_pipeline(settings: dict[str, Any]) -> list[list[Any]]:
    """The most popular paths get a layer each, as far as `maxLayers` allows."""
    # One layer goes to the files outside the store.
    available = settings["maxLayers"] - 1 - base_layer_count(settings)
    if available < 1:
        raise PipelineError(f"maxLayers {settings['maxLayers']} leaves no layer for store paths")
    return [["popularity_contest"], ["limit_layers", available]]


def layers_of(
    closure: list[dict[str, Any]], settings: dict[str, Any], own: set[str]
) -> list[list[str]]:
    """The store paths of each layer; `own` are paths that the image does not hold."""
    graph = graph_of(closure)
    graph = graph.restricted(graph.edges.keys() - own)
    # A pipeline of one's own sees to its number of layers itself, as in nixpkgs.
    pipeline = settings["pipeline"] or default_pipeline(settings)
    return [sorted(part.edges) for part in flatten(pipe(pipeline)(graph)) if part.edges]


def main(attrs_file: Path, out: Path) -> None:
    """Write the image configuration for the derivation that `.attrs.json` describes."""
    attrs = json.loads(attrs_file.read_text())
    settings = json.loads(attrs["settings"]) | json.loads(Path(attrs["config"]).read_text())
    own = {attrs["config"], str(Path(settings["customisation_layer"]).parent)}
    settings["store_layers"] = layers_of(attrs["closure"], settings, own)
    settings["tag"] = settings["tag"] or out.name.partition("-")[0]
    out.write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
    except PipelineError as problem:
        sys.exit(f"error: dockerTools: {problem}")
