{{/* Names of files and their texts, as the reference's charts have them. */}}
{{- define "epp.builtInFiles" -}}
default-plugins.yaml: {{ include "epp.defaultPlugins" . | toJson }}
payload-agnostic.yaml: {{ include "epp.payloadAgnostic" . | toJson }}
{{- end }}

{{/* Requests that can't be read: who is least busy, and who served the session before. */}}
{{- define "epp.payloadAgnostic" -}}
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: passthrough-parser
- type: active-request-scorer
- type: session-affinity-scorer
requestHandler:
  parsers:
  - pluginRef: passthrough-parser
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: active-request-scorer, weight: 1}
  - {pluginRef: session-affinity-scorer, weight: 1}
{{- end }}

{{- define "epp.defaultPlugins" -}}
{{- with .Values.router -}}
{{- $parsers := .epp.parsers | default (eq .modelServers.type "triton" | ternary (list "passthrough-parser") list) -}}
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- type: kv-cache-utilization-scorer
- type: prefix-cache-scorer
- type: metrics-data-source
  parameters:
    scheme: {{ .epp.metricsDataSource.scheme }}
    insecureSkipVerify: {{ .epp.metricsDataSource.insecureSkipVerify }}
    {{- if ne .epp.metricsDataSource.path "/metrics" }}{{/* else each engine has its own */}}
    path: {{ .epp.metricsDataSource.path }}
    {{- end }}
- type: core-metrics-extractor
  parameters:
    defaultEngine: {{ .modelServers.type }}
{{- range $parsers }}
- type: {{ . }}
{{- end }}
{{- with $parsers }}
requestHandler:
  parsers:
  {{- range . }}
  - pluginRef: {{ . }}
  {{- end }}
{{- end }}
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: queue-scorer, weight: 2}
  - {pluginRef: kv-cache-utilization-scorer, weight: 2}
  - {pluginRef: prefix-cache-scorer, weight: 3}
dataLayer:
  sources:
  - pluginRef: metrics-data-source
    extractors:
    - pluginRef: core-metrics-extractor
{{- end }}
{{- end }}
