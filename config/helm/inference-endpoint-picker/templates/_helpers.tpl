{{- define "epp.name" -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}-epp
{{- end }}

{{- define "epp.serviceAccountName" -}}
{{ .Values.router.serviceAccount.name | default (include "epp.name" .) }}
{{- end }}

{{- define "epp.selectorLabels" -}}
app.kubernetes.io/name: epp
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "epp.labels" -}}
{{ include "epp.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "epp.image" -}}
{{- with .Values.router.epp.image -}}
{{ with .registry }}{{ . }}/{{ end }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end }}
{{- end }}

{{/* The pool's name; empty without a pool. */}}
{{- define "epp.pool" -}}
{{- with .Values.router.inferencePool -}}
{{ .name | default (ternary $.Release.Name "" .create) }}
{{- end }}
{{- end }}

{{/* "true" where router.epp.flags switches a flag on, in any spelling of the program's. */}}
{{- define "epp.flagIsOn" -}}
{{ has (index .root.Values.router.epp.flags .flag | toString) (list "true" "True" "TRUE" "t" "T" "1") }}
{{- end }}

{{/* "true" where one of several replicas leads; the flag wins over the number of replicas. A leader
alone would get all the load that an autoscaler adds replicas for. */}}
{{- define "epp.elects" -}}
{{- if hasKey .Values.router.epp.flags "ha-enable-leader-election" -}}
{{ include "epp.flagIsOn" (dict "root" . "flag" "ha-enable-leader-election") }}
{{- else -}}
{{ and (gt (int .Values.router.epp.replicas) 1) (not .Values.router.epp.autoscaling.enabled) }}
{{- end }}
{{- end }}

{{/* "true" where the ext_proc port speaks TLS, as it does unless a flag says otherwise. */}}
{{- define "epp.isSecure" -}}
{{- if hasKey .Values.router.epp.flags "secure-serving" -}}
{{ include "epp.flagIsOn" (dict "root" . "flag" "secure-serving") }}
{{- else -}}
true
{{- end }}
{{- end }}

{{/* HTTP/2 to all that look at it; to GKE the first one is inside TLS and the second one is not. */}}
{{- define "epp.appProtocol" -}}
{{ eq (include "epp.isSecure" .) "true" | ternary "http2" "kubernetes.io/h2c" }}
{{- end }}

{{- define "epp.host" -}}
{{ include "epp.name" . }}.{{ .Release.Namespace }}.svc.{{ .Values.router.clusterDomain }}
{{- end }}

{{- define "epp.tracesPort" -}}
{{ regexFind "[0-9]+$" (get (urlParse .Values.router.tracing.otelExporterEndpoint) "host") | default "4317" }}
{{- end }}

{{- define "epp.monitoringProvider" -}}
{{ .Values.router.monitoring.provider.name | default (eq .Values.provider.name "gke" | ternary "gmp" "prometheusoperator") }}
{{- end }}

{{- define "epp.isAutopilot" -}}
{{ or .Values.router.monitoring.provider.gmp.autopilot .Values.provider.gke.autopilot }}
{{- end }}

{{- define "epp.metricsSecret" -}}
{{ .Values.router.monitoring.prometheus.auth.secretName | default (printf "%s-metrics-reader" (include "epp.name" .)) }}
{{- end }}

{{/* Cluster-wide objects carry the namespace in their name: there may be a release of it in each. */}}
{{- define "epp.clusterName" -}}
{{ .Release.Namespace }}-{{ include "epp.name" . }}
{{- end }}
