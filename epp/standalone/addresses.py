"""Where each part of a standalone run listens."""

from __future__ import annotations

from dataclasses import dataclass

from epp.standalone.envoy_clusters import Address
from epp.standalone.options import StandaloneOptions
from epp.standalone.ports import FreePorts

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Addresses nobody else listens on."""

    listener: Address
    envoy_admin: Address
    ext_proc: Address
    health: Address
    metrics: Address
    admin: Address


def assign_addresses(options: StandaloneOptions, ports: FreePorts) -> Addresses:
    """Give every part the port it was asked to use, or the next that is free."""

    def local(purpose: str, wanted: int) -> Address:
        return Address(LOOPBACK, ports.take(purpose, wanted, LOOPBACK))

    host = options.listen_address
    return Addresses(
        listener=Address(host, ports.take("Envoy", options.port, host)),
        envoy_admin=local("Envoy's admin", options.envoy_admin_port),
        ext_proc=local("ext_proc", options.grpc_port),
        health=local("gRPC health", options.grpc_health_port),
        metrics=local("metrics", options.metrics_port),
        admin=local("the EPP's admin", options.admin_port),
    )
