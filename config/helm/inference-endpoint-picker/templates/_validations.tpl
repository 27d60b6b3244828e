{{/* What the schema can't say, or not why. */}}
{{- define "epp.validate" -}}
{{- include "epp.refuseOtherCharts" . }}
{{- include "epp.refuseMissing" . }}
{{- include "epp.refuseSharedPorts" . }}
{{- with .Values.router }}
{{- if and (not .modelServers.matchLabels) (or .inferencePool.create (not .inferencePool.name)) }}
{{- fail "router.modelServers.matchLabels: needed, the labels of the model servers' pods" }}
{{- end }}
{{- range $flag, $value := dict
  "pool-name" "router.inferencePool.name"
  "endpoint-selector" "router.modelServers.matchLabels"
  "endpoint-target-ports" "router.modelServers.targetPorts"
  "config-file" "router.epp.pluginsConfigFile"
  "config-text" "router.epp.pluginsConfig"
  "grpc-port" "router.epp.extProcPort"
  "grpc-health-port" "router.epp.grpcHealthPort"
  "metrics-port" "router.metricsPort"
  "cert-path" "router.epp.tls.secretName"
  "tracing" "router.tracing.enabled"
  "metrics-endpoint-auth" "router.monitoring.prometheus.auth.enabled" }}
{{- if hasKey $.Values.router.epp.flags $flag }}
{{- fail (printf "router.epp.flags.%s: set %s instead" $flag $value) }}
{{- end }}
{{- end }}
{{- $files := merge (deepCopy .epp.pluginsCustomConfig) (include "epp.builtInFiles" $ | fromYaml) }}
{{- if and (not .epp.pluginsConfig) (not (hasKey $files .epp.pluginsConfigFile)) }}
{{- fail (printf "router.epp.pluginsConfigFile: %s is none of %s" .epp.pluginsConfigFile (keys $files | sortAlpha | join ", ")) }}
{{- end }}
{{- if and .epp.pluginsConfig (hasKey .epp.pluginsCustomConfig .epp.pluginsConfigFile) }}
{{- fail (printf "router.epp.pluginsConfig and router.epp.pluginsCustomConfig both have %s: leave one out" .epp.pluginsConfigFile) }}
{{- end }}
{{- if and .epp.autoscaling.enabled (eq (include "epp.elects" $) "true") }}
{{- fail "router.epp.autoscaling.enabled: replicas that wait for a leader take no load; leave router.epp.flags.ha-enable-leader-election out" }}
{{- end }}
{{- end }}
{{- include "epp.requirePool" . }}
{{- end }}

{{- define "epp.requirePool" -}}
{{- if not (include "epp.pool" .) }}
{{- range $value, $given := dict
  "httpRoute.create" .Values.httpRoute.create
  "provider.name: gke" (eq .Values.provider.name "gke")
  "router.inferenceObjectives" .Values.router.inferenceObjectives
  "router.epp.flags.emit-events" (eq (include "epp.flagIsOn" (dict "root" $ "flag" "emit-events")) "true") }}
{{- if $given }}
{{- fail (printf "%s: is about an InferencePool; set router.inferencePool.create or router.inferencePool.name" $value) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Top-level values of the charts before llm-d-router's. */}}
{{- define "epp.refuseOtherCharts" -}}
{{- range $old, $new := dict
  "inferenceExtension" "router.epp, router.monitoring and router.tracing"
  "inferencePool" "router.modelServers and router.inferencePool"
  "inferenceObjectives" "router.inferenceObjectives"
  "experimentalHttpRoute" "httpRoute" }}
{{- if hasKey $.Values $old }}
{{- fail (printf "%s: is of an older chart; here it is %s" $old $new) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "epp.refuseMissing" -}}
{{- with .Values.router }}
{{- $known := list "openai-parser" "anthropic-parser" "vllmhttp-parser" "sglanghttp-parser" "passthrough-parser" }}
{{- range .epp.parsers }}
{{- if not (has . $known) }}
{{- fail (printf "router.epp.parsers: %s is none of %s" . (join ", " $known)) }}
{{- end }}
{{- end }}
{{- range $value, $asked := dict
  "router.modelServers.protocol: grpc" (list (eq .modelServers.protocol "grpc") "no parser reads gRPC in this version")
  "router.proxy.enabled" (list (dig "proxy" "enabled" false .) "config/overlays/standalone-sidecar has Envoy beside the picker, this chart has not")
  "router.tokenizer.enabled" (list (dig "tokenizer" "enabled" false .) "nothing here asks a tokenizer; prompts are estimated")
  "router.latencyPredictor.enabled" (list (dig "latencyPredictor" "enabled" false .) "predicted latencies are not available in this version")
  "provider.gke.preferredBackends.enabled" (list (dig "gke" "preferredBackends" "enabled" false $.Values.provider) "no StatefulSet here; set router.epp.replicas instead") }}
{{- if first $asked }}
{{- fail (printf "%s: %s" $value (last $asked)) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "epp.refuseSharedPorts" -}}
{{- $epp := .Values.router.epp }}
{{- $taken := dict }}
{{- range list
  (list "router.epp.extProcPort" $epp.extProcPort)
  (list "router.epp.grpcHealthPort" $epp.grpcHealthPort)
  (list "router.metricsPort" .Values.router.metricsPort)
  (list "router.epp.flags.admin-port" (dig "admin-port" 9091 $epp.flags)) }}
{{- $value := first . }}
{{- $port := last . | int | toString }}
{{- with get $taken $port }}
{{- fail (printf "%s and %s are both %s: each needs a port of its own" . $value $port) }}
{{- end }}
{{- $_ := set $taken $port $value }}
{{- end }}
{{- end }}
