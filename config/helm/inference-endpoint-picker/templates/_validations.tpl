{{/* What the schema can't say. */}}
{{- define "epp.validate" -}}
{{- with .Values.router }}
{{- if and (not .modelServers.matchLabels) (or .inferencePool.create (not .inferencePool.name)) }}
{{- fail "router.modelServers.matchLabels: needed, the labels of the model servers' pods" }}
{{- end }}
{{- $elsewhere := dict
  "pool-name" "router.inferencePool.name"
  "endpoint-selector" "router.modelServers.matchLabels"
  "endpoint-target-ports" "router.modelServers.targetPorts"
  "config-file" "router.epp.pluginsConfigFile"
  "config-text" "router.epp.pluginsConfig"
  "grpc-port" "router.epp.extProcPort"
  "grpc-health-port" "router.epp.grpcHealthPort"
  "cert-path" "router.epp.tls.secretName"
  "tracing" "router.tracing.enabled"
  "metrics-endpoint-auth" "router.monitoring.prometheus.auth.enabled" }}
{{- range $flag, $value := $elsewhere }}
{{- if hasKey $.Values.router.epp.flags $flag }}
{{- fail (printf "router.epp.flags.%s: set %s instead" $flag $value) }}
{{- end }}
{{- end }}
{{- $files := merge (dict "default-plugins.yaml" "") .epp.pluginsCustomConfig }}
{{- if and (not .epp.pluginsConfig) (not (hasKey $files .epp.pluginsConfigFile)) }}
{{- fail (printf "router.epp.pluginsConfigFile: %s is none of %s" .epp.pluginsConfigFile (keys $files | sortAlpha | join ", ")) }}
{{- end }}
{{- end }}
{{- end }}
