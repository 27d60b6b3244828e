{{- define "epp.defaultPlugins" -}}
{{- with .Values.router -}}
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
