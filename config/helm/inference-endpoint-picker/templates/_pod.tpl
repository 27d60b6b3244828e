{{- define "epp.pod" -}}
{{- $epp := .Values.router.epp }}
serviceAccountName: {{ include "epp.serviceAccountName" . }}
automountServiceAccountToken: true
terminationGracePeriodSeconds: {{ $epp.terminationGracePeriodSeconds }}
{{- range $field, $value := dict
  "affinity" $epp.affinity
  "imagePullSecrets" .Values.router.imagePullSecrets
  "nodeSelector" $epp.nodeSelector
  "securityContext" $epp.podSecurityContext
  "tolerations" $epp.tolerations }}
{{- with $value }}
{{ $field }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
topologySpreadConstraints:
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include "epp.selectorLabels" . | nindent 6 }}
containers:
- name: epp
  image: {{ include "epp.image" . }}
  imagePullPolicy: {{ $epp.image.pullPolicy }}
  args:
  {{- include "epp.arguments" . | nindent 2 }}
  env:
  {{- include "epp.environment" . | nindent 2 }}
  ports:
  - name: grpc-ext-proc
    containerPort: {{ $epp.extProcPort }}
  - name: grpc-health
    containerPort: {{ $epp.grpcHealthPort }}
  - name: http-metrics
    containerPort: {{ .Values.router.metricsPort }}
  {{- with $epp.extraContainerPorts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  # Never depends on the API server: an outage there must not restart anything here.
  livenessProbe:
    grpc:
      port: {{ $epp.grpcHealthPort }}
      service: liveness
    initialDelaySeconds: 5
    periodSeconds: 10
    timeoutSeconds: 5
  readinessProbe:
    grpc:
      port: {{ $epp.grpcHealthPort }}
      service: readiness
    periodSeconds: 2
    timeoutSeconds: 2
  {{- with $epp.resources }}
  resources:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $epp.securityContext }}
  securityContext:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  volumeMounts:
  - name: plugins-config-volume
    mountPath: /config
    readOnly: true
  {{- if $epp.tls.secretName }}
  - name: tls
    mountPath: /tls
    readOnly: true
  {{- end }}
  {{- with $epp.volumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
volumes:
- name: plugins-config-volume
  configMap:
    name: {{ include "epp.name" . }}
{{- with $epp.tls.secretName }}
- name: tls
  secret:
    secretName: {{ . }}
{{- end }}
{{- with $epp.volumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "epp.environment" -}}
- name: NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
{{- with .Values.router.tracing }}
{{- if .enabled }}
- name: OTEL_SERVICE_NAME
  value: llm-d-router/epp
- name: OTEL_TRACES_EXPORTER
  value: otlp
- name: OTEL_EXPORTER_OTLP_ENDPOINT
  value: {{ .otelExporterEndpoint | quote }}
- name: OTEL_TRACES_SAMPLER
  value: {{ .sampling.sampler | quote }}
- name: OTEL_TRACES_SAMPLER_ARG
  value: {{ .sampling.samplerArg | quote }}
- name: NODE_NAME
  valueFrom:
    fieldRef:
      fieldPath: spec.nodeName
- name: OTEL_RESOURCE_ATTRIBUTES
  value: k8s.namespace.name=$(NAMESPACE),k8s.node.name=$(NODE_NAME),k8s.pod.name=$(POD_NAME)
{{- end }}
{{- end }}
{{- with .Values.router.epp.env }}
{{ toYaml . }}
{{- end }}
{{- end }}
