{{/* Numbers of a values file are floats, which would be written 1e+06. */}}
{{- define "epp.flagValue" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) }}{{ int64 . }}
{{- else if kindIs "slice" . }}{{ join "," . }}
{{- else }}{{ . }}
{{- end }}
{{- end }}

{{- define "epp.matchLabels" -}}
{{- $terms := list }}
{{- range $key, $value := .Values.router.modelServers.matchLabels }}
{{- $terms = append $terms (printf "%s=%s" $key $value) }}
{{- end }}
{{- join "," $terms }}
{{- end }}

{{- define "epp.targetPorts" -}}
{{- $ports := list }}
{{- range .Values.router.modelServers.targetPorts }}
{{- $ports = append $ports (int .number) }}
{{- end }}
{{- join "," $ports }}
{{- end }}

{{- define "epp.arguments" -}}
{{- $epp := .Values.router.epp }}
{{- with include "epp.pool" . }}
- --pool-name={{ . }}
{{- else }}
- {{ printf "--endpoint-selector=%s" (include "epp.matchLabels" .) | quote }}
- --endpoint-target-ports={{ include "epp.targetPorts" . }}
{{- end }}
- --config-file=/config/{{ $epp.pluginsConfigFile }}
- --grpc-port={{ $epp.extProcPort }}
- --grpc-health-port={{ $epp.grpcHealthPort }}
- --metrics-port={{ .Values.router.metricsPort }}
{{- with $epp.tls.secretName }}
- --cert-path=/tls
- --enable-cert-reload
{{- end }}
{{- if and (eq (include "epp.elects" .) "true") (not (hasKey $epp.flags "ha-enable-leader-election")) }}
- --ha-enable-leader-election
{{- end }}
{{- if and (eq $epp.pluginsConfigFile "payload-agnostic.yaml") (not (hasKey $epp.flags "allow-experimental-plugins")) }}
- --allow-experimental-plugins
{{- end }}
{{- range $name, $value := $epp.flags }}
- {{ printf "--%s=%s" $name (include "epp.flagValue" $value) | quote }}
{{- end }}
- --tracing={{ .Values.router.tracing.enabled }}
{{- if not .Values.router.monitoring.prometheus.auth.enabled }}
- --metrics-endpoint-auth=false
{{- end }}
{{- end }}
