"""Order among things that depend on one another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from heapq import heapify, heappop, heappush


def topological_order(
    nodes: Sequence[str], before: Mapping[str, Set[str]]
) -> tuple[list[str], list[str]]:
    """`nodes` with each after those in `before`, else in their order; and one circle, if any.

    Members of circles, and what depends on them, are not in the order.
    """
    rank = {node: index for index, node in enumerate(nodes)}
    waiting_for = {node: set(before.get(node, ())) for node in nodes}
    after: dict[str, list[str]] = {}
    for node, earlier in waiting_for.items():
        for other in earlier:
            after.setdefault(other, []).append(node)
    ready = [rank[node] for node, earlier in waiting_for.items() if not earlier]
    heapify(ready)
    order: list[str] = []
    while ready:
        node = nodes[heappop(ready)]
        order.append(node)
        for later in after.get(node, ()):
            waiting_for[later].discard(node)
            if not waiting_for[later]:
                heappush(ready, rank[later])
    if len(order) == len(nodes):
        return order, []
    return order, _circle(nodes, waiting_for)


def _circle(nodes: Sequence[str], waiting_for: Mapping[str, Set[str]]) -> list[str]:
    """Nodes of a circle, the first of them again at the end; each reads from the next."""
    path = [next(node for node in nodes if waiting_for[node])]
    while True:
        following = min(waiting_for[path[-1]])
        if following in path:
            return [*path[path.index(following) :], following]
        path.append(following)
