"""What is known of the surroundings so far: checks that come later build on what others found."""

from __future__ import annotations

from dataclasses import dataclass

from epp.admin.pool_view import PoolView
from epp.app.options import ServeOptions
from epp.config.assembly import Assembly
from epp.datastore.inference_pool import FailureMode, InferencePool
from epp.diagnosis.doctor_options import DoctorOptions, HostPort
from epp.diagnosis.port_look import PortLook
from epp.framework.endpoint import Endpoint
from epp.kubernetes.client import KubeClient


@dataclass(frozen=True, slots=True, kw_only=True)
class PickerReference:
    """The `endpointPickerRef` of a pool."""

    kind: str
    name: str
    port: int | None


@dataclass(slots=True, kw_only=True)
class Case:
    """One set of surroundings under examination; None: not known, or not there."""

    options: ServeOptions
    asked: DoctorOptions
    is_in_pod: bool
    client: KubeClient | None = None
    reference: PickerReference | None = None
    pool: InferencePool | None = None
    endpoints: tuple[Endpoint, ...] | None = None
    reachable: tuple[Endpoint, ...] | None = None
    assembly: Assembly | None = None
    port: PortLook | None = None
    is_mute: bool = False
    """Whether the ext_proc port speaks no gRPC that could be asked further."""
    pool_view: PoolView | None = None
    """What the admin port of the running picker says."""

    @property
    def namespace(self) -> str:
        """The namespace of the pool."""
        return self.options.pool.namespace

    @property
    def why_no_cluster(self) -> str:
        """Why there is no `client`, where there is none."""
        if self.options.pool.is_in_cluster:
            return "the API server can't be asked"
        return "no pool of a cluster is asked for"

    @property
    def failure_mode(self) -> FailureMode | None:
        """What holds for the gateway: what the flag says is for the picker alone."""
        return self.pool.failure_mode if self.pool is not None else None

    @property
    def admin(self) -> HostPort | None:
        """The admin port of the running picker, as far as one can reach it from here."""
        if self.asked.admin is not None:
            return self.asked.admin
        if self.options.pool.is_in_cluster and not self.is_in_pod:
            return None
        return HostPort(self.options.admin_address, self.options.admin_port)

    @property
    def picker(self) -> HostPort | None:
        """Where a gateway would reach the picker, as far as one can reach it from here."""
        if self.asked.grpc_address is not None:
            return self.asked.grpc_address
        if self.options.pool.is_in_cluster and not self.is_in_pod:
            return None
        reference = self.reference
        if reference is not None and reference.kind == "Service" and reference.port is not None:
            return HostPort(f"{reference.name}.{self.namespace}.svc", reference.port)
        return HostPort(self.options.bind_address or "127.0.0.1", self.options.grpc_port)
