"""What pool files of tests begin with."""

from __future__ import annotations

MANIFEST = """\
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: pool, namespace: default}
spec:
  selector: {matchLabels: {app: model-server}}
  targetPorts: [{number: 8000}]
  endpointPickerRef: {name: epp, port: {number: 9002}, failureMode: FailClose}
---
"""
"""An InferencePool; `endpoints:` follow."""
