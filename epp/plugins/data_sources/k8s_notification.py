"""Objects of a Kubernetes kind that a configuration names (datalayer §6.4)."""

from __future__ import annotations

from pydantic import Field

from epp.framework.data_layer import KubernetesSource
from epp.framework.plugin import Parameters


class K8sNotificationSourceParameters(Parameters):
    """Which kind."""

    group: str = Field("", description="Group of the API; empty for core kinds such as Pod.")
    version: str = Field(min_length=1, description="Version of the API, such as v1.")
    kind: str = Field(min_length=1, description="Kind of the objects, such as Pod.")


class K8sNotificationSource(KubernetesSource):
    """Follows the objects of one kind in the pool's namespace; idle without Kubernetes."""

    type = "k8s-notification-source"

    def __init__(self, parameters: K8sNotificationSourceParameters) -> None:
        self.group = parameters.group
        self.version = parameters.version
        self.kind = parameters.kind
